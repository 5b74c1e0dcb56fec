"""What training does to embeddings: words hidden, entries blurred or dropped; and nothing of it in use."""

import math

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import END, PAD, START, UNKNOWN, shift
from seqloom.errors import OptionError
from seqloom.nn.embedding import Embedded, Embedding
from seqloom.registry import build

V, SIZE = 12, 16


@pytest.fixture
def table() -> Embedding:
    torch.manual_seed(0)
    return Embedding(V, SIZE).double()


def looked_up(table: Embedding, e: torch.Tensor) -> torch.Tensor:
    """The ids whose embeddings stand in e."""
    same = (e[..., None, :] == table.weight).all(-1)
    assert (same.sum(-1) == 1).all()
    return same.int().argmax(-1)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_word_dropout_hides_a_share_of_the_words(table, share):
    ids = torch.randint(0, V, (200, 100))
    seen = looked_up(table, Embedded(word_dropout=share)(ids, table))
    hidden = (seen == UNKNOWN) & (ids != UNKNOWN)
    assert torch.equal(seen.masked_fill(hidden, 0), ids.masked_fill(hidden, 0))
    special = (ids == PAD) | (ids == START) | (ids == END)
    assert not hidden[special].any()
    words = ids > UNKNOWN
    n = int(words.sum())
    assert abs(hidden[words].double().mean() - share) < 5 * math.sqrt(share * (1 - share) / n)


def test_word_dropout_of_all_spares_only_what_is_special(table):
    ids = torch.arange(V)[None]
    seen = looked_up(table, Embedded(word_dropout=1.0)(ids, table))
    assert seen.tolist() == [[PAD, START, END] + [UNKNOWN] * (V - 3)]


def test_the_scale_gives_what_is_read_its_deviation():
    torch.manual_seed(0)
    table, part = Embedding(500, SIZE), Embedded()
    part.begin_with(0.7, SIZE)
    ids = torch.arange(1, 500)
    assert torch.equal(part(ids, table), part.scale * table.weight[1:])
    assert part(ids, table).std().item() == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_noise_is_normal_with_the_given_deviation_whatever_the_scale(table, scale):
    ids = torch.randint(0, V, (200, 100))
    part = Embedded(noise=0.3)
    part.scale = scale
    noise = (part(ids, table) - scale * table(ids)).flatten() / 0.3
    n = len(noise)
    assert abs(noise.mean()) < 5 / math.sqrt(n)
    assert abs(noise.var() - 1) < 5 * math.sqrt(2 / n)
    for quantile in (0.5, 1.0, 2.0):
        p = (1 + math.erf(quantile / math.sqrt(2))) / 2
        assert abs((noise < quantile).double().mean() - p) < 5 * math.sqrt(p * (1 - p) / n)


def test_gradients_pass_by_the_noise(table):
    ids = torch.tensor([[4, 4, 7]])
    Embedded(noise=0.5)(ids, table).sum().backward()
    expected = torch.zeros(V, SIZE, dtype=torch.float64)
    expected[4], expected[7] = 2, 1
    assert torch.equal(table.weight.grad, expected)


@pytest.mark.parametrize("options", [{}, {"noise": 0.5, "word_dropout": 0.5, "dropout": 0.5}], ids=["off", "in use"])
def test_where_it_is_off_no_chance_is_used(table, options):
    part = Embedded(**options).train(not options)
    ids = torch.randint(0, V, (5, 7))
    before = torch.get_rng_state()
    assert torch.equal(part(ids, table), table(ids))
    assert torch.equal(torch.get_rng_state(), before)


def built(**settings):
    torch.manual_seed(1)
    return build_model("luong", sizes={"source": V, "target": V}, size=8, settings=settings).double()


BATCH = Batch.of([[4, 5, 6], [7]], [[8, 9], [10, 11, 4]])


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("side", ["source", "output"])
def test_each_side_has_its_own_options(side, share):
    """All words of one side are hidden: as if it had been written so, also with one table for both."""
    model = built(**{f"{side}.word_dropout": 1.0, "share_embeddings": share})
    plain = built(share_embeddings=share)
    plain.load_state_dict(model.state_dict())
    hidden = BATCH
    memory = plain.encode(BATCH)
    inputs = shift(plain.output.start(memory), BATCH.target)
    if side == "source":
        hidden = Batch(
            {**BATCH.fields, "source": BATCH.source._replace(values=BATCH.source.values.clamp(max=UNKNOWN))}
        )
        memory = plain.encode(hidden)
    else:
        inputs = inputs.clamp(max=UNKNOWN)
    decoded = plain(inputs, memory)
    # What is predicted is the target as it is.
    expected = plain.output.loss(decoded, memory, BATCH.target)
    assert torch.equal(model.loss(BATCH).total, expected.total)
    assert torch.equal(model.eval().loss(BATCH).total, plain.loss(BATCH).total)


@pytest.mark.parametrize("option", ["noise", "word_dropout", "dropout"])
@pytest.mark.parametrize("side", ["source", "output"])
def test_every_option_acts_in_training_alone(side, option):
    model = built(**{f"{side}.{option}": 0.5})
    losses = {model.loss(BATCH).total.item() for _ in range(8)}
    assert len(losses) > 1
    model.eval()
    assert len({model.loss(BATCH).total.item() for _ in range(3)}) == 1


@pytest.mark.parametrize("part", ["embedder", "output"])
@pytest.mark.parametrize("options", [{"noise": -0.1}, {"word_dropout": 1.1}, {"word_dropout": -0.1}], ids=str)
def test_what_makes_no_sense_is_refused(part, options):
    with pytest.raises(OptionError):
        build(part, {"name": "tokens", **options}, V)
    with pytest.raises(OptionError):
        Embedded(**options)
