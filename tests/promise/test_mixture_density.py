"""An external mixture density output for vectors, with a context sequence as additional input."""

import math

import numpy as np
import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import Padded, shift
from seqloom.errors import ConfigError
from seqloom.registry import build
from seqloom.train.objectives.scheduled_sampling import scheduled_loss

OUTSIDE = ("proofs/mixture_density.py",)
pytestmark = pytest.mark.usefixtures("outside")

D, C, LENGTHS = 2, 3, (6, 3)
DECODERS = {
    "recurrent": {"name": "recurrent", "context": "none", "readout": "state"},
    "transformer": {"name": "transformer", "heads": 2, "layers": 1, "dropout": 0.0},
}


@pytest.fixture(params=DECODERS)
def model(request):
    torch.manual_seed(1)
    description = {
        "type": "language_model",
        "decoder": DECODERS[request.param],
        "output": {"name": "mixture_density"},
        "inputs": {"context": {"embedder": {"name": "linear", "embedding_size": 4}, "joins": "target"}},
    }
    return build_model(description, sizes={"target": D, "context": C}, hidden_size=8).double().eval()


def batch_of(lengths=LENGTHS, seed: int = 0) -> Batch:
    """Targets that follow their context: its cumulative sum."""
    draw = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    context = torch.randn(*mask.shape, C, generator=draw, dtype=torch.double)
    target = context[..., :D].cumsum(1) / 2
    zero = ~mask[..., None]
    return Batch(
        {"target": Padded(target.masked_fill(zero, 0), mask), "context": Padded(context.masked_fill(zero, 0), mask)}
    )


def decoded_of(model, batch):
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    return model(inputs, memory), inputs, memory


@torch.no_grad()
def test_loss_equals_its_formula(model):
    batch = batch_of()
    decoded, _, _ = decoded_of(model, batch)
    W, b = (p.numpy() for p in model.output.linear.parameters())
    total, K = 0.0, model.output.components
    for row, length in enumerate(LENGTHS):
        for t in range(length):
            z = W @ decoded.features[row, t].numpy() + b
            pi, sigma, mu = np.exp(z[:K]) / np.exp(z[:K]).sum(), np.exp(z[K : 2 * K]), z[2 * K :].reshape(K, D)
            y = batch.target.values[row, t].numpy()
            density = [
                pi[k]
                * np.prod(np.exp(-((y - mu[k]) ** 2) / (2 * sigma[k] ** 2)) / (sigma[k] * math.sqrt(2 * math.pi)))
                for k in range(K)
            ]
            total -= math.log(sum(density))
    loss = model.loss(batch)
    assert loss.total.item() == pytest.approx(total, abs=1e-10)
    assert loss.steps == sum(LENGTHS)


@torch.no_grad()
def test_steps_equal_forward_and_beams_share_the_context(model):
    batch = batch_of()
    decoded, inputs, memory = decoded_of(model, batch)
    state, twice = model.initial_state(memory), torch.tensor([0, 0, 1, 1])
    rows = state.select(twice)
    for t in range(inputs.shape[1]):
        step, beams = model.step(inputs[:, t], state, memory), model.step(inputs[twice, t], rows, memory)
        state, rows = step.state, beams.state
        torch.testing.assert_close(step.features, decoded.features[:, t])
        torch.testing.assert_close(beams.features, decoded.features[twice, t])


@torch.no_grad()
def test_context_affects_its_step_but_no_earlier_steps(model):
    batch = batch_of()
    before, _, _ = decoded_of(model, batch)
    for t in range(max(LENGTHS)):
        values = batch["context"].values.clone()
        values[0, t] += 1
        after, _, _ = decoded_of(model, Batch({**batch.fields, "context": Padded(values, batch["context"].mask)}))
        changed = (after.features - before.features).abs().amax(-1) > 1e-9
        assert not changed[0, :t].any()
        assert changed[0, t]
        assert not changed[1].any()


@torch.no_grad()
def test_loss_of_an_example_does_not_depend_on_its_batch(model):
    batch = batch_of()
    alone = [
        Batch(
            {name: Padded(x.values[row : row + 1, :n], x.mask[row : row + 1, :n]) for name, x in batch.fields.items()}
        )
        for row, n in enumerate(LENGTHS)
    ]
    total = sum(model.loss(one).total for one in alone)
    torch.testing.assert_close(model.loss(batch).total, total)


@torch.no_grad()
def test_samples_have_the_moments_of_the_mixture(model):
    memory = model.encode(batch_of())
    step = model.step(model.output.start(memory), model.initial_state(memory), memory)
    many = step._replace(features=step.features[:1].expand(20_000, -1))
    drawn = model.output.sample(many, memory, generator=torch.Generator().manual_seed(1))
    log_pi, mu, log_sigma = model.output.parameters_of(step.features[0])
    mean = (log_pi.exp()[:, None] * mu).sum(0)
    variance = (log_pi.exp()[:, None] * (mu**2 + (2 * log_sigma).exp()[:, None])).sum(0) - mean**2
    torch.testing.assert_close(drawn.mean(0), mean, atol=0.1, rtol=0)
    torch.testing.assert_close(drawn.var(0), variance, atol=0.1, rtol=0.1)
    mode = model.output.sample(step, memory, temperature=0)
    assert any(torch.allclose(mode[0], one) for one in mu)


@torch.no_grad()
def test_scheduled_sampling_with_ratio_0_feeds_the_mode(model):
    """Against an explicit rollout: the target is used for the loss of every step, but never fed."""
    batch, total, fed = batch_of(), 0.0, []
    memory = model.encode(batch)
    state, last = model.initial_state(memory), torch.zeros(len(LENGTHS), D, dtype=torch.double)
    for t in range(max(LENGTHS)):
        step = model.step(last, state, memory)
        log_pi, mu, log_sigma = model.output.parameters_of(step.features)
        for row, length in enumerate(LENGTHS):
            if t < length:
                normal = torch.distributions.Normal(mu[row], log_sigma[row].exp()[:, None])
                densities = normal.log_prob(batch.target.values[row, t]).sum(-1)
                total -= torch.logsumexp(log_pi[row] + densities, 0).item()
        highest = (log_pi - D * log_sigma).argmax(-1)
        last, state = torch.stack([mu[row, k] for row, k in enumerate(highest)]), step.state
        fed.append(last)
    loss = scheduled_loss(model, batch, 0.0)
    assert loss.total.item() == pytest.approx(total, abs=1e-10)
    assert loss.steps == sum(LENGTHS)
    own = Padded(torch.stack(fed, 1), batch.target.mask)
    assert loss.total.item() != pytest.approx(model.loss(batch).total.item(), rel=1e-3)
    decoded, _, _ = decoded_of(model, Batch({**batch.fields, "target": own}))  # the same, for all steps in parallel
    assert loss.total.item() == pytest.approx(
        model.output.loss(decoded, memory, batch.target).total.item(), abs=1e-10
    )


@torch.no_grad()
@pytest.mark.parametrize("ratio", [1.0, 1 - 1e-12], ids=["always", "almost always"])
def test_scheduled_sampling_with_ratio_1_is_teacher_forcing(model, ratio):
    """Also step by step, as it is computed unless the ratio is exactly 1."""
    batch = batch_of()
    loss, expected = scheduled_loss(model, batch, ratio), model.loss(batch)
    torch.testing.assert_close(loss.total, expected.total)
    assert loss.steps == expected.steps


@torch.no_grad()
def test_scheduled_sampling_chooses_the_input_of_each_row_and_step_independently(model, monkeypatch):
    """The input is either the previous target or the model's mode, each about equally often with ratio 0.5."""
    batch, fed, choices = batch_of((6,) * 8), [], []
    feed = model.output.feed
    with monkeypatch.context() as patch:
        patch.setattr(model.output, "feed", lambda value: fed.append(value) or feed(value))
        torch.manual_seed(2)
        scheduled_loss(model, batch, 0.5)
    memory = model.encode(batch)
    state, mode = model.initial_state(memory), None
    for t, last in enumerate(fed):
        if t > 0:
            true = (last == batch.target.values[:, t - 1]).all(-1)
            assert (true ^ (last == mode).all(-1)).all()
            choices.append(true)
        step = model.step(last, state, memory)
        mode, state = model.output.sample(step, memory, temperature=0), step.state
    assert 0.3 < torch.cat(choices).double().mean() < 0.7


@pytest.mark.parametrize("name", ["teacher_forcing", "scheduled_sampling"])
def test_training_reduces_the_loss(model, name):
    objective = build("objective", name)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for update in range(1, 41):
        loss, _ = objective(model, batch_of((6,) * 16, seed=update), update=update)
        optimizer.zero_grad()
        loss.mean.backward()
        optimizer.step()
        losses.append(loss.mean.item())
    assert sum(losses[-5:]) < sum(losses[:5]) - 2.5


def test_search_is_rejected(model):
    with pytest.raises(ConfigError, match="not a distribution over tokens"):
        build("search", {"name": "greedy", "max_length": 3})(model, batch_of())
