"""Tokens out: the loss against plain numpy, what is fed, what is drawn."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from seqloom import build_model
from seqloom.batch import END, PAD, START, Batch, Padded, shift
from seqloom.errors import SizeError
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory
from seqloom.nn.outputs.cross_entropy import linear_cross_entropy
from seqloom.registry import build
from tests.nn.helpers import array, assert_equal, assert_equal_with_gradients, gradients, rand, shaken

V, H = 7, 4
BATCH = Batch.of([[3, 4, 5, 6], [5], [], [6, 6, 3]])
TARGET, MASK = BATCH.target
B, T = TARGET.shape
MEMORY = Memory(values=torch.zeros(B, 1, H), mask=torch.ones(B, 1, dtype=torch.bool))
both_ways = pytest.mark.parametrize("tied", [False, True], ids=["separate", "tied"])


def made(**options):
    torch.manual_seed(1)
    output = build("output", {"name": "tokens", "size": H, **options}, V)
    output.attach(H, H**-0.5)
    return shaken(output)


def log_probs(output, features):
    """log softmax(W f + b), in numpy."""
    W = output.embedding.weight if output.tied else output.weight
    logits = array(features) @ array(W).T + array(output.bias)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def loss_of(output, features, target=TARGET, mask=MASK):
    return output.loss(DecoderOutput(features, None, DecoderState()), MEMORY, Padded(target, mask))


@both_ways
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_loss_is_the_cross_entropy_of_real_tokens(tied, smoothing):
    output, features = made(tied=tied, label_smoothing=smoothing), rand(B, T, H)
    log_p = log_probs(output, features)
    wanted, steps = 0.0, 0
    for b, row in enumerate([[3, 4, 5, 6, END], [5, END], [END], [6, 6, 3, END]]):
        for t, token in enumerate(row):
            wanted -= (1 - smoothing) * log_p[b, t, token] + smoothing / V * log_p[b, t].sum()
            steps += 1
    loss = loss_of(output, features)
    assert loss.total.item() == pytest.approx(wanted, abs=1e-10)
    assert loss.steps.item() == steps == 12
    assert loss.mean.item() == pytest.approx(wanted / 12, abs=1e-10)


@both_ways
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_of_the_loss(tied, smoothing):
    """∂L/∂logits = p − q, with q the (smoothed) target."""
    output, features = made(tied=tied, label_smoothing=smoothing), rand(B, T, H)
    W = output.embedding.weight if tied else output.weight
    q = (1 - smoothing) * np.eye(V)[TARGET.numpy()] + smoothing / V
    to_logits = (np.exp(log_probs(output, features)) - q) * MASK.numpy()[..., None]
    total = loss_of(output, features).total
    found = torch.autograd.grad(3 * total, [features, W, output.bias])
    wanted = (
        to_logits @ array(W),
        np.einsum("btv,bth->vh", to_logits, array(features)),
        to_logits.sum((0, 1)),
    )
    for actual, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(array(actual), 3 * expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_of_very_many_steps(smoothing):
    """However the work is cut up, it is one sum: here over 350,000 steps."""
    output, features = made(label_smoothing=smoothing), rand(350, 1000, H)
    target = torch.randint(V, (350, 1000))
    mask = torch.rand(350, 1000) < 0.99
    logits = features[mask] @ output.weight.t() + output.bias
    plain = F.cross_entropy(logits, target[mask], reduction="sum", label_smoothing=smoothing)
    loss = loss_of(output, features, target, mask).total
    assert_equal_with_gradients(loss, plain, [features, output.weight, output.bias], 1e-9)


def test_losses_of_batches_add_up():
    output, features = made(), rand(B, T, H)
    whole = loss_of(output, features)
    rows = [loss_of(output, features[b : b + 1], TARGET[b : b + 1], MASK[b : b + 1]) for b in range(B)]
    assert_equal(whole.total, sum(row.total for row in rows))
    assert whole.steps == sum(row.steps for row in rows)


@pytest.mark.parametrize("value", [1e30, float("inf"), float("nan")])
def test_features_of_padding_have_no_part_in_the_loss(value):
    output, features = made(label_smoothing=0.1), rand(B, T, H)
    spoilt = torch.where(MASK[..., None], features, torch.full_like(features, value))
    leaves = [features, output.weight, output.bias]
    assert_equal(loss_of(output, spoilt).total, loss_of(output, features).total)
    assert_equal(gradients(loss_of(output, spoilt).total, leaves), gradients(loss_of(output, features).total, leaves))
    (grad,) = gradients(loss_of(output, features).total, [features])
    assert not grad[~MASK].any()
    assert grad[MASK].any(-1).all()


def test_targets_of_padding_have_no_part_in_the_loss():
    output, features = made(), rand(B, T, H)
    other = torch.where(MASK, TARGET, torch.tensor(5))
    assert_equal(loss_of(output, features, other).total, loss_of(output, features).total, 0)


@both_ways
def test_log_probs_of_a_step(tied):
    output, features = made(tied=tied), rand(3, H)
    result = output.log_probs(DecoderOutput(features, None, DecoderState()), MEMORY)
    np.testing.assert_allclose(array(result), log_probs(output, features), rtol=0, atol=1e-10)
    assert_equal(result.exp().sum(-1), torch.ones(3, dtype=torch.float64))


def test_tied_weights_are_the_embeddings():
    tied, separate = made(tied=True), made(tied=False)
    assert {name for name, _ in tied.named_parameters()} == {"embedding.weight", "bias"}
    assert {name for name, _ in separate.named_parameters()} == {"embedding.weight", "bias", "weight"}
    features = rand(B, T, H)
    assert gradients(loss_of(tied, features).total, [tied.embedding.weight])[0].any()
    assert not gradients(loss_of(separate, features).total, [separate.embedding.weight])[0].any()


def test_tied_embeddings_must_have_the_size_of_the_features():
    output = build("output", {"name": "tokens", "size": H, "tied": True}, V)
    with pytest.raises(SizeError, match="size 4 can't read features of size 5"):
        output.attach(5, 1.0)


def test_shift_puts_start_first_and_feeds_no_end():
    fed = shift(made().start(MEMORY), BATCH.target)
    assert fed.tolist() == [
        [START, 3, 4, 5, 6],
        [START, 5, PAD, PAD, PAD],
        [START, PAD, PAD, PAD, PAD],
        [START, 6, 6, 3, PAD],
    ]


def test_the_embedding_of_end_changes_no_loss_and_gets_no_gradient():
    output = made()

    def loss():
        e = output.feed(shift(output.start(MEMORY), Padded(TARGET, MASK)))
        return loss_of(output, torch.tanh(e.cumsum(1))).total

    before = loss()
    (grad,) = gradients(before, [output.embedding.weight])
    assert grad.any(-1).tolist() == [False, True, False, True, True, True, True]  # neither PAD nor END
    with torch.no_grad():
        output.embedding.weight[END] += 100
    assert_equal(loss(), before, 0)


def test_start_is_fed_first():
    assert made().start(MEMORY).tolist() == [START] * B


def test_feed_is_the_embedding_and_pad_is_zero():
    torch.manual_seed(2)
    output = build("output", {"name": "tokens", "size": 400}, 50)
    assert not output.feed(torch.tensor([PAD])).any()
    e = output.feed(torch.arange(1, 50))
    assert_equal(e, output.embedding.weight[1:])
    assert e.var().item() == pytest.approx(1 / 400, rel=0.05)
    output.attach(400, 0.5)
    assert_equal(output.feed(torch.arange(1, 50)), 10 * e)
    (grad,) = gradients(output.feed(torch.tensor([PAD, 5])), [output.embedding.weight])
    assert grad.any(-1).nonzero().flatten().tolist() == [5]


def test_dropout_on_what_is_fed_in_training_only():
    output = made(dropout=1.0)
    ids = torch.tensor([3, 4])
    assert not output.feed(ids).any()
    assert_equal(output.eval().feed(ids), output.embedding.weight[ids])


def test_samples_follow_the_distribution():
    output, features = made(), rand(1, H, grad=False)
    n = 20_000
    step = DecoderOutput(features.expand(n, -1), None, DecoderState())
    drawn = output.sample(step, MEMORY, generator=torch.Generator().manual_seed(3))
    assert drawn.shape == (n,)
    wanted = n * np.exp(log_probs(output, features))[0]
    assert wanted.min() > 5, "too few for the test to hold"
    counts = np.bincount(drawn.numpy(), minlength=V)
    assert ((counts - wanted) ** 2 / wanted).sum() < 22.46  # 99.9 % of χ² with 6 degrees of freedom
    again = output.sample(step, MEMORY, generator=torch.Generator().manual_seed(3))
    assert_equal(again, drawn, 0)


@pytest.mark.parametrize("bad", [V, -1])
def test_ids_outside_of_the_vocabulary(bad):
    output = made()
    with pytest.raises(SizeError, match=rf"from .* to .*vocabulary from 0 to {V - 1}"):
        output.feed(torch.tensor([[3, bad]]))


@pytest.mark.parametrize("bad", [V, -1, -100])
def test_targets_outside_of_the_vocabulary(bad):
    target = TARGET.clone()
    target[0, 1] = bad
    with pytest.raises(SizeError, match=f"vocabulary from 0 to {V - 1}"):
        loss_of(made(), rand(B, T, H), target)


def test_smoothing_leaves_the_perplexity_what_it_is():
    """What is shown as perplexity in training is of the plain loss, whatever training makes smaller."""
    torch.manual_seed(0)
    x, W, b, y = torch.randn(5, 4), torch.randn(7, 4), torch.randn(7), torch.tensor([0, 3, 6, 2, 2])
    total, plain = linear_cross_entropy(x.requires_grad_(), W, b, y, 0.3)
    z = x @ W.t() + b
    torch.testing.assert_close(plain, F.cross_entropy(z, y, reduction="sum"))
    torch.testing.assert_close(total, F.cross_entropy(z, y, reduction="sum", label_smoothing=0.3))
    assert total.requires_grad
    assert not plain.requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_can_be_differentiated_twice(smoothing):
    torch.manual_seed(0)
    x, W, b = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (5, 4), (5,)))
    y = torch.tensor([0, 4, 2])
    assert torch.autograd.gradgradcheck(lambda *given: linear_cross_entropy(*given, y, smoothing)[0], (x, W, b))


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_is_frozen_gets_no_gradient_from_the_loss(frozen):
    torch.manual_seed(1)
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (5, 4), (5,))]
    y = torch.tensor([0, 4, 2])
    expected = torch.autograd.grad(linear_cross_entropy(*given, y)[0], given)
    given[frozen].requires_grad_(False)
    linear_cross_entropy(*given, y)[0].backward()
    for n, (tensor, grad) in enumerate(zip(given, expected, strict=True)):
        if n == frozen:
            assert tensor.grad is None
        else:
            torch.testing.assert_close(tensor.grad, grad)


def test_labels_are_smoothed_in_training_only():
    torch.manual_seed(3)
    settings = {"encoder.dropout": 0.0, "decoder.dropout": 0.0}
    model = build_model("transformer", sizes={"source": 9, "target": 9}, size=8, settings=settings)
    batch = Batch.of([[4, 5]], [[6, 7]])
    memory = model.encode(batch)
    decoded = model(shift(model.output.start(memory), batch.target), memory)
    log_p = torch.log_softmax(model.output.logits(decoded.features), -1)
    likelihood = log_p.gather(2, batch.target.values[..., None]).sum()
    torch.testing.assert_close(model.eval().loss(batch).total, -likelihood)
    assert not torch.isclose(model.train().loss(batch).total, -likelihood)


@pytest.mark.parametrize("vocabulary", [0, 3])
def test_a_vocabulary_without_room_for_special_symbols_is_refused(vocabulary):
    with pytest.raises(SizeError, match=f"vocabulary of {vocabulary} symbols has no room"):
        build_model("luong", sizes={"source": 9, "target": vocabulary}, size=4)
