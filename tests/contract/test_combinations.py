"""The covering of all combinations, and the reasons for the combinations that it omits."""

from functools import cache
from itertools import combinations as pairs_of
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom import parts
from seqloom.errors import ConfigError, ShapeError
from tests.contract.covering import Rule, allowed_values, complete, covering
from tests.contract.parts_tables import ATTENDS, FAMILIES, label
from tests.contract.runs import (
    every_combination,
    gradients,
    make_batch,
    parameters_without_grad,
    randomized,
    uniform_if_no_match,
)
from tests.variants import variants


@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.data())
def test_covering_has_every_pair_of_every_valid_row(sizes, data):
    factors = {f"factor {n}": range(size) for n, size in enumerate(sizes)}
    a, b, c = (data.draw(st.sampled_from(sorted(factors))) for _ in range(3))
    rules = [Rule((a, b), lambda x, y: x + y != 1), Rule((a, b, c), lambda x, y, z: x + y + z != 3)]
    valid = [
        row
        for values in product(*factors.values())
        for row in [dict(zip(factors, values, strict=True))]
        if all(rule.holds(*(row[f] for f in rule.factors)) for rule in rules)
    ]
    rows = covering(factors, rules)
    assert all(row in valid for row in rows)
    assert {p for row in rows for p in pairs_of(row.items(), 2)} == {
        p for row in valid for p in pairs_of(row.items(), 2)
    }


@pytest.mark.parametrize(
    "kind", ["cell", "score", "normalizer", "positional_encoding", "encoder", "decoder", "bridge", "readout"]
)
def test_every_registered_part_is_in_some_combination(kind):
    assert set(parts(kind).values()) <= used_parts()


@cache
def used_parts() -> set[type]:
    return {type(module) for c in every_combination() for module in c.family.build(c.row).modules()}


def test_every_option_of_cells_scores_and_normalizers_is_in_some_combination():
    for kind in ("cell", "score", "normalizer"):
        chosen = [(c.row[kind], c.row[f"{kind} options"]) for c in every_combination() if c.row.get(kind, "-") != "-"]
        for name in parts(kind):
            for options in variants(kind, name):
                assert (name, options) in chosen


def breaking(kind: str):
    """For every rule and all values that break it: a row that breaks only this rule, if there is one."""
    for name, family in FAMILIES.items():
        for rule in getattr(family, kind):
            others = [r for r in family.rules if r is not rule]
            tables = allowed_values(family.factors, others)
            for values in product(*(family.factors[f] for f in rule.factors)):
                if rule.holds(*values):
                    continue
                fixed = {f: [v] for f, v in zip(rule.factors, values, strict=True)}
                row = complete({**family.factors, **fixed}, tables)
                if row is not None:
                    words = "-".join(f"{f}={v}" for f, v in zip(rule.factors, values, strict=True))
                    yield pytest.param(family, row, rule, id=f"{name}-{words}")


@pytest.mark.parametrize(("family", "row", "rule"), list(breaking("refused")))
def test_combinations_that_break_a_rule_are_refused(family, row, rule):
    with pytest.raises((ConfigError, ShapeError)) as error:
        family.build(row)
    assert rule.message in str(error.value)


def test_every_rule_is_broken_by_some_combination():
    broken = {id(case.values[2]) for case in breaking("refused")}
    for name, family in FAMILIES.items():
        for rule in family.refused:
            assert id(rule) in broken, f"{name}: no combination breaks only {rule.factors}"


@pytest.mark.parametrize(("family", "row", "rule"), list(breaking("unread")))
def test_unused_parameters_are_refused_or_listed(family, row, rule):
    """A model must not silently contain parameters that get no gradient."""
    try:
        model = family.build(row)
    except (ConfigError, ShapeError):
        return
    model = randomized(model.double().eval(), 0)
    listed = parameters_without_grad(model)
    found = gradients(model, [make_batch(model, seed) for seed in range(2)], probe=uniform_if_no_match)
    dead = [name for name, gradient in found.items() if not torch.any(gradient != 0)]
    assert dead, f"all parameters get gradients, so the rule is wrong: {rule.message}"
    unlisted = [name for name in dead if not name.startswith(tuple(listed))]
    assert not unlisted, f"{rule.message}; neither refused nor in parameters_without_grad: {label(row)}"


def test_attending_contexts_are_those_of_the_wiring():
    from seqloom.models.decoders.wiring import Wiring

    assert all(Wiring(c, None, False, False).attends == (c in ATTENDS) for c in ("none", "summary", *ATTENDS))
