"""Token output: loss and log-probabilities against numpy, decoder inputs, samples."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from seqloom import build_model
from seqloom.batch import BOS, EOS, PAD, Batch, Padded, shift
from seqloom.errors import ShapeError
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory
from seqloom.nn.outputs.cross_entropy import linear_cross_entropy
from seqloom.registry import build
from tests.nn.helpers import (
    assert_equal,
    assert_equal_with_gradients,
    gradients,
    rand,
    randomize_parameters,
    to_numpy,
)

V, H = 7, 4
BATCH = Batch.from_lists([[3, 4, 5, 6], [5], [], [6, 6, 3]])
TARGET, MASK = BATCH.target
B, T = TARGET.shape
MEMORY = Memory({"values": torch.zeros(B, 1, H), "mask": torch.ones(B, 1, dtype=torch.bool)})
separate_and_tied = pytest.mark.parametrize("tied", [False, True], ids=["separate", "tied"])


def make_output(**options):
    torch.manual_seed(1)
    output = build("output", {"name": "tokens", "embedding_size": H, **options}, V)
    output.set_feature_size(H, H**-0.5)
    return randomize_parameters(output)


def log_probs(output, features):
    """log softmax(W f + b), in numpy."""
    W = output.embedding.weight if output.tie_output_embeddings else output.weight
    logits = to_numpy(features) @ to_numpy(W).T + to_numpy(output.bias)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def compute_loss(output, features, target=TARGET, mask=MASK):
    return output.loss(DecoderOutput(features, None, DecoderState()), MEMORY, Padded(target, mask))


@separate_and_tied
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_loss_is_cross_entropy_without_padding(tied, smoothing):
    output, features = make_output(tie_output_embeddings=tied, label_smoothing=smoothing), rand(B, T, H)
    log_p = log_probs(output, features)
    expected, steps = 0.0, 0
    for b, row in enumerate([[3, 4, 5, 6, EOS], [5, EOS], [EOS], [6, 6, 3, EOS]]):
        for t, token in enumerate(row):
            expected -= (1 - smoothing) * log_p[b, t, token] + smoothing / V * log_p[b, t].sum()
            steps += 1
    loss = compute_loss(output, features)
    assert loss.total.item() == pytest.approx(expected, abs=1e-10)
    assert loss.steps.item() == steps == 12
    assert loss.mean.item() == pytest.approx(expected / 12, abs=1e-10)


@separate_and_tied
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_of_the_loss(tied, smoothing):
    """∂L/∂logits = p − q, with q the (smoothed) target."""
    output, features = make_output(tie_output_embeddings=tied, label_smoothing=smoothing), rand(B, T, H)
    W = output.embedding.weight if tied else output.weight
    q = (1 - smoothing) * np.eye(V)[TARGET.numpy()] + smoothing / V
    to_logits = (np.exp(log_probs(output, features)) - q) * MASK.numpy()[..., None]
    total = compute_loss(output, features).total
    found = torch.autograd.grad(3 * total, [features, W, output.bias])
    expected = (
        to_logits @ to_numpy(W),
        np.einsum("btv,bth->vh", to_logits, to_numpy(features)),
        to_logits.sum((0, 1)),
    )
    for actual, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(to_numpy(actual), 3 * e, rtol=0, atol=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_over_many_chunks(smoothing):
    """The loss does not depend on how it is divided into chunks: here over 350,000 steps."""
    output, features = make_output(label_smoothing=smoothing), rand(350, 1000, H)
    target = torch.randint(V, (350, 1000))
    mask = torch.rand(350, 1000) < 0.99
    logits = features[mask] @ output.weight.t() + output.bias
    expected = F.cross_entropy(logits, target[mask], reduction="sum", label_smoothing=smoothing)
    loss = compute_loss(output, features, target, mask).total
    assert_equal_with_gradients(loss, expected, [features, output.weight, output.bias], 1e-9)


def test_losses_of_batches_add_up():
    output, features = make_output(), rand(B, T, H)
    whole = compute_loss(output, features)
    rows = [compute_loss(output, features[b : b + 1], TARGET[b : b + 1], MASK[b : b + 1]) for b in range(B)]
    assert_equal(whole.total, sum(row.total for row in rows))
    assert whole.steps == sum(row.steps for row in rows)


@pytest.mark.parametrize("value", [1e30, float("inf"), float("nan")])
def test_padding_features_do_not_change_the_loss(value):
    output, features = make_output(label_smoothing=0.1), rand(B, T, H)
    modified = torch.where(MASK[..., None], features, torch.full_like(features, value))
    leaves = [features, output.weight, output.bias]
    assert_equal(compute_loss(output, modified).total, compute_loss(output, features).total)
    assert_equal(
        gradients(compute_loss(output, modified).total, leaves),
        gradients(compute_loss(output, features).total, leaves),
    )
    (grad,) = gradients(compute_loss(output, features).total, [features])
    assert not grad[~MASK].any()
    assert grad[MASK].any(-1).all()


def test_padding_targets_do_not_change_the_loss():
    output, features = make_output(), rand(B, T, H)
    other = torch.where(MASK, TARGET, torch.tensor(5))
    assert_equal(compute_loss(output, features, other).total, compute_loss(output, features).total, 0)


@separate_and_tied
def test_log_probs_of_one_step(tied):
    output, features = make_output(tie_output_embeddings=tied), rand(3, H)
    result = output.log_probs(DecoderOutput(features, None, DecoderState()), MEMORY)
    np.testing.assert_allclose(to_numpy(result), log_probs(output, features), rtol=0, atol=1e-10)
    assert_equal(result.exp().sum(-1), torch.ones(3, dtype=torch.float64))


def test_tied_output_weights_are_the_embeddings():
    tied, separate = make_output(tie_output_embeddings=True), make_output(tie_output_embeddings=False)
    assert {name for name, _ in tied.named_parameters()} == {"embedding.weight", "bias"}
    assert {name for name, _ in separate.named_parameters()} == {"embedding.weight", "bias", "weight"}
    features = rand(B, T, H)
    assert gradients(compute_loss(tied, features).total, [tied.embedding.weight])[0].any()
    assert not gradients(compute_loss(separate, features).total, [separate.embedding.weight])[0].any()


def test_tied_embeddings_with_other_feature_size_are_an_error():
    output = build("output", {"name": "tokens", "embedding_size": H, "tie_output_embeddings": True}, V)
    with pytest.raises(ShapeError, match="embedding size, 4, but they have size 5"):
        output.set_feature_size(5, 1.0)


def test_shift_prepends_bos_and_drops_eos():
    inputs = shift(make_output().start(MEMORY), BATCH.target)
    assert inputs.tolist() == [
        [BOS, 3, 4, 5, 6],
        [BOS, 5, PAD, PAD, PAD],
        [BOS, PAD, PAD, PAD, PAD],
        [BOS, 6, 6, 3, PAD],
    ]


def test_eos_embedding_does_not_affect_the_loss():
    output = make_output()

    def loss():
        e = output.feed(shift(output.start(MEMORY), Padded(TARGET, MASK)))
        return compute_loss(output, torch.tanh(e.cumsum(1))).total

    before = loss()
    (grad,) = gradients(before, [output.embedding.weight])
    assert grad.any(-1).tolist() == [False, True, False, True, True, True, True]  # PAD and EOS get no gradient
    with torch.no_grad():
        output.embedding.weight[EOS] += 100
    assert_equal(loss(), before, 0)


def test_start_value_is_bos():
    assert make_output().start(MEMORY).tolist() == [BOS] * B


def test_feed_returns_embeddings_and_zero_for_pad():
    torch.manual_seed(2)
    output = build("output", {"name": "tokens", "embedding_size": 400}, 50)
    assert not output.feed(torch.tensor([PAD])).any()
    e = output.feed(torch.arange(1, 50))
    assert_equal(e, output.embedding.weight[1:])
    assert e.var().item() == pytest.approx(1 / 400, rel=0.05)
    output.set_feature_size(400, 0.5)
    assert_equal(output.feed(torch.arange(1, 50)), 10 * e)
    (grad,) = gradients(output.feed(torch.tensor([PAD, 5])), [output.embedding.weight])
    assert grad.any(-1).nonzero().flatten().tolist() == [5]


def test_embedding_dropout_in_training_mode_only():
    output = make_output(dropout=1.0)
    ids = torch.tensor([3, 4])
    assert not output.feed(ids).any()
    assert_equal(output.eval().feed(ids), output.embedding.weight[ids])


def test_samples_follow_the_distribution():
    output, features = make_output(), rand(1, H, grad=False)
    n = 20_000
    step = DecoderOutput(features.expand(n, -1), None, DecoderState())
    samples = output.sample(step, MEMORY, generator=torch.Generator().manual_seed(3))
    assert samples.shape == (n,)
    expected = n * np.exp(log_probs(output, features))[0]
    assert expected.min() > 5, "too few samples for a χ² test"
    counts = np.bincount(samples.numpy(), minlength=V)
    assert ((counts - expected) ** 2 / expected).sum() < 22.46  # 99.9 % of χ² with 6 degrees of freedom
    again = output.sample(step, MEMORY, generator=torch.Generator().manual_seed(3))
    assert_equal(again, samples, 0)


@pytest.mark.parametrize("bad", [V, -1])
def test_input_ids_out_of_range_are_errors(bad):
    output = make_output()
    with pytest.raises(ShapeError, match=rf"from .* to .*vocabulary has ids 0 to {V - 1}"):
        output.feed(torch.tensor([[3, bad]]))


@pytest.mark.parametrize("bad", [V, -1, -100])
def test_target_ids_out_of_range_are_errors(bad):
    target = TARGET.clone()
    target[0, 1] = bad
    with pytest.raises(ShapeError, match=f"vocabulary has ids 0 to {V - 1}"):
        compute_loss(make_output(), rand(B, T, H), target)


def test_label_smoothing_does_not_change_the_reported_loss():
    """The perplexity reported in training comes from the loss without smoothing."""
    torch.manual_seed(0)
    x, W, b, y = torch.randn(5, 4), torch.randn(7, 4), torch.randn(7), torch.tensor([0, 3, 6, 2, 2])
    total, nll = linear_cross_entropy(x.requires_grad_(), W, b, y, 0.3)
    z = x @ W.t() + b
    torch.testing.assert_close(nll, F.cross_entropy(z, y, reduction="sum"))
    torch.testing.assert_close(total, F.cross_entropy(z, y, reduction="sum", label_smoothing=0.3))
    assert total.requires_grad
    assert not nll.requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_loss_has_second_derivatives(smoothing):
    torch.manual_seed(0)
    x, W, b = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (5, 4), (5,)))
    y = torch.tensor([0, 4, 2])
    assert torch.autograd.gradgradcheck(lambda *args: linear_cross_entropy(*args, y, smoothing)[0], (x, W, b))


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_frozen_tensors_get_no_gradient(frozen):
    torch.manual_seed(1)
    tensors = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (5, 4), (5,))]
    y = torch.tensor([0, 4, 2])
    expected = torch.autograd.grad(linear_cross_entropy(*tensors, y)[0], tensors)
    tensors[frozen].requires_grad_(False)
    linear_cross_entropy(*tensors, y)[0].backward()
    for n, (tensor, grad) in enumerate(zip(tensors, expected, strict=True)):
        if n == frozen:
            assert tensor.grad is None
        else:
            torch.testing.assert_close(tensor.grad, grad)


def test_label_smoothing_in_training_mode_only():
    torch.manual_seed(3)
    settings = {"encoder.dropout": 0.0, "decoder.dropout": 0.0}
    model = build_model("transformer", sizes={"source": 9, "target": 9}, hidden_size=8, overrides=settings)
    batch = Batch.from_lists([[4, 5]], [[6, 7]])
    memory = model.encode(batch)
    decoded = model(shift(model.output.start(memory), batch.target), memory)
    log_p = torch.log_softmax(model.output.logits(decoded.features), -1)
    likelihood = log_p.gather(2, batch.target.values[..., None]).sum()
    torch.testing.assert_close(model.eval().loss(batch).total, -likelihood)
    assert not torch.isclose(model.train().loss(batch).total, -likelihood)


@pytest.mark.parametrize("vocabulary", [0, 3])
def test_vocabulary_too_small_for_special_tokens_is_an_error(vocabulary):
    with pytest.raises(ShapeError, match=f"vocabulary size {vocabulary} is too small"):
        build_model("luong", sizes={"source": 9, "target": vocabulary}, hidden_size=4)
