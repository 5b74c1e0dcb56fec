"""Embedding regularization in training: word dropout, noise and dropout."""

import math

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import BOS, EOS, PAD, UNK, shift
from seqloom.errors import ConfigError
from seqloom.nn.embedding import Embedding, TokenEmbedding
from seqloom.registry import build

V, SIZE = 12, 16


@pytest.fixture
def table() -> Embedding:
    torch.manual_seed(0)
    return Embedding(V, SIZE).double()


def lookup_ids(table: Embedding, e: torch.Tensor) -> torch.Tensor:
    """The ids whose embeddings e contains."""
    same = (e[..., None, :] == table.weight).all(-1)
    assert (same.sum(-1) == 1).all()
    return same.int().argmax(-1)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_word_dropout_replaces_the_given_share_of_tokens_by_unk(table, share):
    ids = torch.randint(0, V, (200, 100))
    ids_read = lookup_ids(table, TokenEmbedding(word_dropout=share)(ids, table))
    dropped = (ids_read == UNK) & (ids != UNK)
    assert torch.equal(ids_read.masked_fill(dropped, 0), ids.masked_fill(dropped, 0))
    special = (ids == PAD) | (ids == BOS) | (ids == EOS)
    assert not dropped[special].any()
    words = ids > UNK
    n = int(words.sum())
    assert abs(dropped[words].double().mean() - share) < 5 * math.sqrt(share * (1 - share) / n)


def test_word_dropout_never_replaces_special_tokens(table):
    ids = torch.arange(V)[None]
    ids_read = lookup_ids(table, TokenEmbedding(word_dropout=1.0)(ids, table))
    assert ids_read.tolist() == [[PAD, BOS, EOS] + [UNK] * (V - 3)]


def test_scale_sets_the_std_of_embeddings():
    torch.manual_seed(0)
    table, part = Embedding(500, SIZE), TokenEmbedding()
    part.set_init_std(0.7, SIZE)
    ids = torch.arange(1, 500)
    assert torch.equal(part(ids, table), part.scale * table.weight[1:])
    assert part(ids, table).std().item() == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_embedding_noise_is_gaussian_with_the_given_std_at_any_scale(table, scale):
    ids = torch.randint(0, V, (200, 100))
    part = TokenEmbedding(embedding_noise=0.3)
    part.scale = scale
    noise = (part(ids, table) - scale * table(ids)).flatten() / 0.3
    n = len(noise)
    assert abs(noise.mean()) < 5 / math.sqrt(n)
    assert abs(noise.var() - 1) < 5 * math.sqrt(2 / n)
    for quantile in (0.5, 1.0, 2.0):
        p = (1 + math.erf(quantile / math.sqrt(2))) / 2
        assert abs((noise < quantile).double().mean() - p) < 5 * math.sqrt(p * (1 - p) / n)


def test_embedding_noise_does_not_change_gradients(table):
    ids = torch.tensor([[4, 4, 7]])
    TokenEmbedding(embedding_noise=0.5)(ids, table).sum().backward()
    expected = torch.zeros(V, SIZE, dtype=torch.float64)
    expected[4], expected[7] = 2, 1
    assert torch.equal(table.weight.grad, expected)


@pytest.mark.parametrize(
    "options", [{}, {"embedding_noise": 0.5, "word_dropout": 0.5, "dropout": 0.5}], ids=["off", "eval mode"]
)
def test_no_random_numbers_are_drawn_when_regularization_is_off(table, options):
    part = TokenEmbedding(**options).train(not options)
    ids = torch.randint(0, V, (5, 7))
    before = torch.get_rng_state()
    assert torch.equal(part(ids, table), table(ids))
    assert torch.equal(torch.get_rng_state(), before)


def make_model(**settings):
    torch.manual_seed(1)
    return build_model("luong", sizes={"source": V, "target": V}, hidden_size=8, overrides=settings).double()


BATCH = Batch.from_lists([[4, 5, 6], [7]], [[8, 9], [10, 11, 4]])


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("side", ["source_embedder", "output"])
def test_source_and_target_have_separate_embedding_options(side, share):
    """Replacing all tokens of one side equals a batch of UNK on that side, also with a shared embedding table."""
    model = make_model(**{f"{side}.word_dropout": 1.0, "share_embeddings": share})
    plain = make_model(share_embeddings=share)
    plain.load_state_dict(model.state_dict())
    replaced = BATCH
    memory = plain.encode(BATCH)
    inputs = shift(plain.output.start(memory), BATCH.target)
    if side == "source_embedder":
        replaced = Batch({**BATCH.fields, "source": BATCH.source._replace(values=BATCH.source.values.clamp(max=UNK))})
        memory = plain.encode(replaced)
    else:
        inputs = inputs.clamp(max=UNK)
    decoded = plain(inputs, memory)
    # Targets of the loss are not replaced.
    expected = plain.output.loss(decoded, memory, BATCH.target)
    assert torch.equal(model.loss(BATCH).total, expected.total)
    assert torch.equal(model.eval().loss(BATCH).total, plain.loss(BATCH).total)


@pytest.mark.parametrize("option", ["embedding_noise", "word_dropout", "dropout"])
@pytest.mark.parametrize("side", ["source_embedder", "output"])
def test_embedding_options_act_in_training_mode_only(side, option):
    model = make_model(**{f"{side}.{option}": 0.5})
    losses = {model.loss(BATCH).total.item() for _ in range(8)}
    assert len(losses) > 1
    model.eval()
    assert len({model.loss(BATCH).total.item() for _ in range(3)}) == 1


@pytest.mark.parametrize("part", ["embedder", "output"])
@pytest.mark.parametrize(
    "options", [{"embedding_noise": -0.1}, {"word_dropout": 1.1}, {"word_dropout": -0.1}], ids=str
)
def test_invalid_embedding_options_are_errors(part, options):
    with pytest.raises(ConfigError):
        build(part, {"name": "tokens", **options}, V)
    with pytest.raises(ConfigError):
        TokenEmbedding(**options)
