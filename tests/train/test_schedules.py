"""Schedules against closed formulas and PyTorch's own."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.errors import OptionError
from seqloom.registry import build, options, parts

LAST = 200


def factors(schedule, last: int = LAST) -> list[float]:
    return [schedule.factor(step) for step in range(1, last + 1)]


def by_torch(make) -> list[float]:
    """The factor that a scheduler of PyTorch has reached after 1, 2, … steps of its own."""
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = make(optimiser)
    found = []
    for _ in range(LAST):
        optimiser.step()
        scheduler.step()
        found.append(optimiser.param_groups[0]["lr"])
    return found


@pytest.mark.parametrize("name", parts("schedule"))
@pytest.mark.parametrize("warmup", [1, 2, 50])
def test_the_warm_up_is_a_straight_line_to_one(name, warmup):
    schedule = build("schedule", {"name": name, "warmup": warmup}, LAST)
    for step in range(1, warmup + 1):
        assert schedule.factor(step) == pytest.approx(step / warmup)
    assert schedule.factor(warmup + 1) == pytest.approx(1, abs=0.35)
    assert all(0 <= factor <= 1 for factor in factors(schedule))


@pytest.mark.parametrize("name", sorted(set(parts("schedule")) - {"noam"}))
def test_without_a_warm_up_the_full_rate_is_there_at_once(name):
    assert build("schedule", name, 10_000).factor(1) == pytest.approx(1, abs=1e-3)


def test_constant():
    assert set(factors(build("schedule", "constant", None))) == {1.0}
    warm = by_torch(lambda o: torch.optim.lr_scheduler.LinearLR(o, 1e-9, 1.0, total_iters=50))
    assert factors(build("schedule", {"name": "constant", "warmup": 50}, None)) == pytest.approx(warm)


@pytest.mark.parametrize(("size", "warmup"), [(512, 4000), (64, 10)])
def test_noam_is_the_paper_s(size, warmup):
    """Vaswani et al. 2017, equation 3, with the optimiser's rate set to its peak."""
    schedule = build("schedule", {"name": "noam", "warmup": warmup}, None)
    rate = (size * warmup) ** -0.5
    for step in (1, 2, 9, 10, 11, 100, 3999, 4000, 4001, 100_000):
        paper = size**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert rate * schedule.factor(step) == pytest.approx(paper, rel=1e-12)


def test_noam_warms_up_as_long_as_the_paper_where_nothing_is_said():
    assert build("schedule", "noam", None).factor(4000) == 1.0
    assert build("schedule", "noam", None).factor(16_000) == 0.5


def test_inverse_square_root():
    schedule = build("schedule", {"name": "inverse_sqrt", "warmup": 20, "timescale": 60}, None)
    # From 1 it falls so that 1 / factor² grows by 1 in every timescale.
    assert [1 / schedule.factor(20 + n * 60) ** 2 for n in range(5)] == pytest.approx([1, 2, 3, 4, 5])
    assert schedule.factor(20 + 3 * 60) == pytest.approx(0.5)
    noam = build("schedule", {"name": "noam", "warmup": 30}, None)
    same = build("schedule", {"name": "inverse_sqrt", "warmup": 30, "timescale": 30}, None)
    assert factors(same) == pytest.approx(factors(noam))


def test_cosine_is_pytorch_s():
    annealed = by_torch(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, LAST, eta_min=0.1))
    assert factors(build("schedule", {"name": "cosine", "minimum": 0.1}, LAST)) == pytest.approx(annealed)


def test_cosine_after_a_warm_up():
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
def test_plateau_is_pytorch_s(values, patience, minimum):
    schedule = build("schedule", {"name": "plateau", "decay": 0.6, "patience": patience, "minimum": minimum}, None)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    # PyTorch's patience is how many it puts up with, ours is the one at which it acts.
    expected = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, factor=0.6, patience=patience - 1, threshold=0.0, min_lr=minimum, eps=0.0
    )
    for value in values:
        schedule.observe(value)
        expected.step(value)
        assert schedule.factor(1) == pytest.approx(optimiser.param_groups[0]["lr"])


def test_a_value_that_is_no_number_is_no_progress():
    schedule = build("schedule", {"name": "plateau", "patience": 2}, None)
    for value in (1.0, math.nan, math.nan, 0.9):
        schedule.observe(value)
    assert schedule.factor(1) == 0.5
    assert schedule.best == 0.9


def test_a_plateau_during_a_long_warm_up_holds():
    schedule = build("schedule", {"name": "plateau", "warmup": 100, "patience": 1}, None)
    schedule.observe(1.0)
    schedule.observe(1.0)
    assert [schedule.factor(step) for step in (10, 50, 90, 100, 200)] == pytest.approx([0.1, 0.5, 0.5, 0.5, 0.5])


@pytest.mark.parametrize("name", parts("schedule"))
@given(values=st.lists(st.floats(0, 3), max_size=12), cut=st.integers(0, 12))
def test_a_restored_schedule_goes_on_as_it_would_have(name, values, cut):
    made = [build("schedule", {"name": name, "warmup": 3}, LAST) for _ in range(2)]
    for value in values[:cut]:
        made[0].observe(value)
    made[1].restore(json.loads(json.dumps(made[0].state(), allow_nan=False)))
    for value in values[cut:]:
        for schedule in made:
            schedule.observe(value)
    assert factors(made[0], 20) == factors(made[1], 20)


@pytest.mark.parametrize(
    ("spec", "steps", "says"),
    [
        ("cosine", None, "say how many steps"),
        ({"name": "cosine", "warmup": 10}, 10, "leaves nothing of 10 steps"),
        ({"name": "noam", "warmup": 0}, None, "warmup=0"),
        ({"name": "constant", "warmup": -1}, None, "warmup=-1"),
        ({"name": "plateau", "decay": 1.0}, None, "decay=1.0"),
        ({"name": "plateau", "patience": 0}, None, "patience=0"),
    ],
)
def test_what_makes_no_sense_is_refused(spec, steps, says):
    with pytest.raises(OptionError) as raised:
        build("schedule", spec, steps)
    assert says in str(raised.value)


@pytest.mark.parametrize("name", parts("schedule"))
def test_every_option_is_explained(name):
    cls = parts("schedule")[name]
    assert all(f"\n    {option}: " in cls.__doc__ for option in options(cls))
