"""Learning rate schedules, compared with closed formulas and with PyTorch's schedulers."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.errors import ConfigError
from seqloom.registry import build, options, parts

LAST = 200


def factors(schedule, last: int = LAST) -> list[float]:
    return [schedule.factor(step) for step in range(1, last + 1)]


def by_torch(make) -> list[float]:
    """The factors of a PyTorch scheduler after 1, 2, … steps."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = make(optimizer)
    lrs = []
    for _ in range(LAST):
        optimizer.step()
        scheduler.step()
        lrs.append(optimizer.param_groups[0]["lr"])
    return lrs


@pytest.mark.parametrize("name", parts("schedule"))
@pytest.mark.parametrize("warmup", [1, 2, 50])
def test_warmup_is_linear(name, warmup):
    schedule = build("schedule", {"name": name, "warmup": warmup}, LAST)
    for step in range(1, warmup + 1):
        assert schedule.factor(step) == pytest.approx(step / warmup)
    assert schedule.factor(warmup + 1) == pytest.approx(1, abs=0.35)
    assert all(0 <= factor <= 1 for factor in factors(schedule))


@pytest.mark.parametrize("name", sorted(set(parts("schedule")) - {"noam"}))
def test_factor_starts_at_one_without_warmup(name):
    assert build("schedule", name, 10_000).factor(1) == pytest.approx(1, abs=1e-3)


def test_constant():
    assert set(factors(build("schedule", "constant", None))) == {1.0}
    warm = by_torch(lambda o: torch.optim.lr_scheduler.LinearLR(o, 1e-9, 1.0, total_iters=50))
    assert factors(build("schedule", {"name": "constant", "warmup": 50}, None)) == pytest.approx(warm)


@pytest.mark.parametrize(("size", "warmup"), [(512, 4000), (64, 10)])
def test_noam_matches_paper(size, warmup):
    """Vaswani et al. 2017, equation 3, with the learning rate of the optimizer set to its peak."""
    schedule = build("schedule", {"name": "noam", "warmup": warmup}, None)
    peak = (size * warmup) ** -0.5
    for step in (1, 2, 9, 10, 11, 100, 3999, 4000, 4001, 100_000):
        paper = size**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert peak * schedule.factor(step) == pytest.approx(paper, rel=1e-12)


def test_default_warmup_of_noam_matches_paper():
    assert build("schedule", "noam", None).factor(4000) == 1.0
    assert build("schedule", "noam", None).factor(16_000) == 0.5


def test_inverse_square_root():
    schedule = build("schedule", {"name": "inverse_sqrt", "warmup": 20, "timescale": 60}, None)
    # The factor decays from 1 so that 1 / factor² grows by 1 per timescale.
    assert [1 / schedule.factor(20 + n * 60) ** 2 for n in range(5)] == pytest.approx([1, 2, 3, 4, 5])
    assert schedule.factor(20 + 3 * 60) == pytest.approx(0.5)
    noam = build("schedule", {"name": "noam", "warmup": 30}, None)
    same = build("schedule", {"name": "inverse_sqrt", "warmup": 30, "timescale": 30}, None)
    assert factors(same) == pytest.approx(factors(noam))


def test_cosine_matches_pytorch():
    annealed = by_torch(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, LAST, eta_min=0.1))
    assert factors(build("schedule", {"name": "cosine", "minimum": 0.1}, LAST)) == pytest.approx(annealed)


def test_cosine_after_warmup():
    schedule = build("schedule", {"name": "cosine", "warmup": 40}, 240)
    assert [schedule.factor(40 + n) for n in (0, 50, 100, 150, 200)] == pytest.approx(
        [1, 0.5 + 0.5 * math.sqrt(0.5), 0.5, 0.5 - 0.5 * math.sqrt(0.5), 0]
    )
    assert schedule.factor(10_000) == schedule.factor(240) == 0


@given(
    values=st.lists(st.floats(0, 3).map(lambda v: round(v, 1)), max_size=30),
    patience=st.integers(1, 4),
    minimum=st.sampled_from([0.0, 0.2]),
)
def test_plateau_matches_pytorch(values, patience, minimum):
    schedule = build("schedule", {"name": "plateau", "decay": 0.6, "patience": patience, "minimum": minimum}, None)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    # PyTorch reduces the learning rate one bad validation after its patience, seqloom at its patience.
    expected = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.6, patience=patience - 1, threshold=0.0, min_lr=minimum, eps=0.0
    )
    for value in values:
        schedule.on_validation(value)
        expected.step(value)
        assert schedule.factor(1) == pytest.approx(optimizer.param_groups[0]["lr"])


def test_nan_metric_is_not_an_improvement():
    schedule = build("schedule", {"name": "plateau", "patience": 2}, None)
    for value in (1.0, math.nan, math.nan, 0.9):
        schedule.on_validation(value)
    assert schedule.factor(1) == 0.5
    assert schedule.best == 0.9


def test_plateau_applies_during_warmup():
    schedule = build("schedule", {"name": "plateau", "warmup": 100, "patience": 1}, None)
    schedule.on_validation(1.0)
    schedule.on_validation(1.0)
    assert [schedule.factor(step) for step in (10, 50, 90, 100, 200)] == pytest.approx([0.1, 0.5, 0.5, 0.5, 0.5])


@pytest.mark.parametrize("name", parts("schedule"))
@given(values=st.lists(st.floats(0, 3), max_size=12), cut=st.integers(0, 12))
def test_restored_schedule_continues_unchanged(name, values, cut):
    schedules = [build("schedule", {"name": name, "warmup": 3}, LAST) for _ in range(2)]
    for value in values[:cut]:
        schedules[0].on_validation(value)
    schedules[1].restore(json.loads(json.dumps(schedules[0].state(), allow_nan=False)))
    for value in values[cut:]:
        for schedule in schedules:
            schedule.on_validation(value)
    assert factors(schedules[0], 20) == factors(schedules[1], 20)


@pytest.mark.parametrize(
    ("spec", "steps", "message"),
    [
        ("cosine", None, "requires the total number of steps"),
        ({"name": "cosine", "warmup": 10}, 10, "warmup=10 is invalid: it must be less than the 10 updates"),
        ({"name": "noam", "warmup": 0}, None, "warmup=0"),
        ({"name": "constant", "warmup": -1}, None, "warmup=-1"),
        ({"name": "plateau", "decay": 1.0}, None, "decay=1.0"),
        ({"name": "plateau", "patience": 0}, None, "patience=0"),
    ],
)
def test_invalid_options_are_rejected(spec, steps, message):
    with pytest.raises(ConfigError) as raised:
        build("schedule", spec, steps)
    assert message in str(raised.value)


@pytest.mark.parametrize("name", parts("schedule"))
def test_every_option_is_documented(name):
    cls = parts("schedule")[name]
    assert all(f"\n    {option}: " in cls.__doc__ for option in options(cls))
