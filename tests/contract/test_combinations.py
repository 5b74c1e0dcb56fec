"""The covering, and that what it leaves out is left out for a reason."""

from functools import cache
from itertools import combinations as pairs_of
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom import parts
from seqloom.errors import OptionError, SizeError
from tests.contract.covering import Rule, complete, covering, tabled
from tests.contract.parts_tables import ATTENDS, FAMILIES, label
from tests.contract.runs import even_where_nothing, every_combination, gradients, inert, make_batch, randomised
from tests.variants import variants


@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.data())
def test_a_covering_has_every_pair_that_some_valid_row_has(sizes, data):
    factors = {f"factor {n}": range(size) for n, size in enumerate(sizes)}
    a, b, c = (data.draw(st.sampled_from(sorted(factors))) for _ in range(3))
    rules = [Rule((a, b), lambda x, y: x + y != 1), Rule((a, b, c), lambda x, y, z: x + y + z != 3)]
    kept = [
        row
        for values in product(*factors.values())
        for row in [dict(zip(factors, values, strict=True))]
        if all(rule.holds(*(row[f] for f in rule.factors)) for rule in rules)
    ]
    rows = covering(factors, rules)
    assert all(row in kept for row in rows)
    assert {p for row in rows for p in pairs_of(row.items(), 2)} == {
        p for row in kept for p in pairs_of(row.items(), 2)
    }


@pytest.mark.parametrize(
    "kind", ["cell", "score", "normaliser", "positions", "encoder", "decoder", "bridge", "readout"]
)
def test_every_registered_part_is_in_some_combination(kind):
    assert set(parts(kind).values()) <= used_parts()


@cache
def used_parts() -> set[type]:
    return {type(module) for c in every_combination() for module in c.family.build(c.row).modules()}


def test_every_choice_of_a_cell_and_a_score_is_in_some_combination():
    for kind in ("cell", "score", "normaliser"):
        chosen = [(c.row[kind], c.row[f"{kind} options"]) for c in every_combination() if c.row.get(kind, "-") != "-"]
        for name in parts(kind):
            for options in variants(kind, name):
                assert (name, options) in chosen


def breaking(kind: str):
    """For every rule and all values that break it: a row that breaks this rule and no other, where there is one."""
    for name, family in FAMILIES.items():
        for rule in getattr(family, kind):
            others = [r for r in family.rules if r is not rule]
            tables = tabled(family.factors, others)
            for values in product(*(family.factors[f] for f in rule.factors)):
                if rule.holds(*values):
                    continue
                fixed = {f: [v] for f, v in zip(rule.factors, values, strict=True)}
                row = complete({**family.factors, **fixed}, tables)
                if row is not None:
                    words = "-".join(f"{f}={v}" for f, v in zip(rule.factors, values, strict=True))
                    yield pytest.param(family, row, rule, id=f"{name}-{words}")


@pytest.mark.parametrize(("family", "row", "rule"), list(breaking("refused")))
def test_what_the_covering_leaves_out_is_refused(family, row, rule):
    with pytest.raises((OptionError, SizeError)) as error:
        family.build(row)
    assert rule.says in str(error.value)


def test_every_reason_to_refuse_is_seen():
    seen = {id(case.values[2]) for case in breaking("refused")}
    for name, family in FAMILIES.items():
        for rule in family.refused:
            assert id(rule) in seen, f"{name}: nothing breaks {rule.factors} alone"


@pytest.mark.parametrize(("family", "row", "rule"), list(breaking("unread")))
def test_what_nothing_reads_is_refused_or_named(family, row, rule):
    """Parameters that never learn, built without a word, are a trap."""
    try:
        model = family.build(row)
    except (OptionError, SizeError):
        return
    model = randomised(model.double().eval(), 0)
    named = inert(model)
    found = gradients(model, [make_batch(model, seed) for seed in range(2)], probe=even_where_nothing)
    dead = [name for name, gradient in found.items() if not torch.any(gradient != 0)]
    assert dead, f"this does learn, so the rule is wrong: {rule.says}"
    unnamed = [name for name in dead if not name.startswith(tuple(named))]
    assert not unnamed, f"{rule.says}; neither refused nor named as inert: {label(row)}"


def test_attention_is_attention():
    """The words of this folder are those of the wiring."""
    from seqloom.models.decoders.wiring import Wiring

    assert all(Wiring(c, None, False, False).attends == (c in ATTENDS) for c in ("none", "summary", *ATTENDS))
