"""Checkpoint averaging and the exponential moving average, compared with numpy."""

import numpy as np
import pytest
import torch
from torch import nn

from seqloom import build_model
from seqloom.errors import ShapeError
from seqloom.train.averaging import ExponentialMovingAverage, average_checkpoints


def random_state_dict(seed: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "a": torch.randn(3, 2, generator=generator).to(dtype),
        "b": torch.randn(4, generator=generator).to(dtype),
        "count": torch.tensor(seed),
        "flag": torch.tensor([seed % 2 == 0]),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_average_is_mean_of_checkpoints(dtype):
    states = [random_state_dict(seed, dtype) for seed in range(5)]
    before = [{name: tensor.clone() for name, tensor in state.items()} for state in states]
    mean = average_checkpoints(iter(states))
    for name in ("a", "b"):
        expected = np.mean([state[name].double().numpy() for state in states], 0)
        np.testing.assert_allclose(mean[name].numpy(), expected, rtol=1e-6 if dtype == torch.float32 else 1e-15)
        assert mean[name].dtype == dtype
    assert mean["count"] == 4
    assert mean["flag"].dtype == torch.bool
    assert mean["flag"].item() is True
    for state, old in zip(states, before, strict=True):
        assert all(torch.equal(state[name], old[name]) for name in old)
    assert not {t.data_ptr() for t in mean.values()} & {t.data_ptr() for s in states for t in s.values()}


def test_average_is_summed_in_float64():
    states = [{"w": torch.tensor([value])} for value in (1e8, 1.0, -1e8)]
    assert average_checkpoints(states)["w"].item() == pytest.approx(1 / 3)


def test_average_of_one_checkpoint_is_unchanged():
    state = random_state_dict(3)
    assert all(torch.equal(tensor, state[name]) for name, tensor in average_checkpoints([state]).items())


def test_average_keeps_shared_weights_shared():
    def built():
        return build_model(
            "transformer", sizes={"source": 9, "target": 9}, hidden_size=8, overrides={"share_embeddings": True}
        )

    models = [built(), built()]
    fresh = built()
    fresh.load_state_dict(average_checkpoints(model.state_dict() for model in models))
    assert fresh.source_embedder.embedding.weight is fresh.output.embedding.weight
    expected = sum(model.source_embedder.embedding.weight.detach() for model in models) / 2
    torch.testing.assert_close(fresh.output.output_weight.detach(), expected)


@pytest.mark.parametrize(
    "states",
    [
        [{"w": torch.zeros(2)}, {"v": torch.zeros(2)}],
        [{"w": torch.zeros(2)}, {"w": torch.zeros(3)}],
        [{"w": torch.zeros(2)}, {}],
        [],
    ],
    ids=["names", "shapes", "missing", "none"],
)
def test_incompatible_checkpoints_are_rejected(states):
    with pytest.raises(ShapeError, match="average"):
        average_checkpoints(states)


def random_walk(model: nn.Module, steps: int, seed: int = 0):
    """The model after each step of a random walk of its weights."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator))
        yield model


@pytest.mark.parametrize("decay", [0.3, 0.999])
def test_ema_is_weighted_sum_of_all_weights(decay):
    """w̄_N = Π d · w_0 + Σ_n (1 − d_n) Π_{later} d · w_n."""
    model = nn.Linear(3, 2).double()
    walk = [model.weight.detach().numpy().copy()]
    ema = ExponentialMovingAverage(model, decay=decay)
    for _ in random_walk(model, 12):
        ema.update(model)
        walk.append(model.weight.detach().numpy().copy())
    d = [min(decay, (1 + n) / (10 + n)) for n in range(12)]
    expected = walk[0] * np.prod(d)
    for n, w in enumerate(walk[1:]):
        expected = expected + (1 - d[n]) * np.prod(d[n + 1 :]) * w
    np.testing.assert_allclose(ema.means["weight"].numpy(), expected, rtol=1e-12)


def test_swapped_weights_are_restored_after_error():
    model = nn.Linear(3, 2)
    ema = ExponentialMovingAverage(model, decay=0.9)
    for _ in random_walk(model, 5):
        ema.update(model)
    own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    addresses = [parameter.data_ptr() for parameter in model.parameters()]

    def fail_in_the_middle():
        with ema.swapped(model):
            for name, tensor in model.state_dict().items():
                assert torch.equal(tensor, ema.means[name])
                assert not torch.equal(tensor, own[name])
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail_in_the_middle()
    assert all(torch.equal(tensor, own[name]) for name, tensor in model.state_dict().items())
    assert [parameter.data_ptr() for parameter in model.parameters()] == addresses  # the optimizer refers to them


def test_restored_ema_continues_bit_for_bit():
    def start():
        torch.manual_seed(1)
        model = build_model("luong", sizes={"source": 9, "target": 9}, hidden_size=8)
        return model, ExponentialMovingAverage(model, decay=0.95)

    model, whole = start()
    for n, _ in enumerate(random_walk(model, 8)):
        whole.update(model)
        if n == 3:
            kept = whole.state()
    again, resumed = start()
    for n, _ in enumerate(random_walk(again, 8)):
        if n == 4:
            resumed.restore(kept)
        if n >= 4:
            resumed.update(again)
    assert resumed.updates == whole.updates == 8
    assert all(torch.equal(mean, resumed.means[name]) for name, mean in whole.means.items())
    with pytest.raises(ShapeError, match="another architecture"):
        ExponentialMovingAverage(nn.Linear(2, 2)).restore(kept)
