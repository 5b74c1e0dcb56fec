"""Settings on top of settings."""

import pytest

from seqloom.merge import by_path, merge


@pytest.mark.parametrize(
    ("below", "above", "merged"),
    [
        ({"p": "lstm"}, {"p": {"bias": 0}}, {"p": {"name": "lstm", "bias": 0}}),
        ({"p": {"name": "lstm", "bias": 0}}, {"p": "lstm"}, {"p": {"name": "lstm", "bias": 0}}),
        ({"p": {"name": "lstm", "bias": 0}}, {"p": "gru"}, {"p": "gru"}),
        ({"p": {"name": "lstm", "bias": 0}}, {"p": {"name": "gru", "z": 1}}, {"p": {"name": "gru", "z": 1}}),
        ({"p": {"rate": 1}}, {"p": "adam"}, {"p": {"rate": 1, "name": "adam"}}),
        ({"p": {"rate": 1}}, {"p": None}, {"p": None}),
    ],
)
def test_a_part_named_anew_loses_the_old_ones_options(below, above, merged):
    assert merge(below, above) == merged


def test_paths_are_nested_mappings_the_later_on_top():
    settings = {"a.b": 1, "a.c.d": 2, "e": {"f": 3}, "e.g": 4, "a.b.h": 5, "i": "lstm", "i.bias": 0}
    nested = {"a": {"b": {"h": 5}, "c": {"d": 2}}, "e": {"f": 3, "g": 4}, "i": {"name": "lstm", "bias": 0}}
    assert by_path(settings) == nested


def test_neither_side_is_changed():
    below, above = {"p": {"name": "lstm", "q": {"r": 1}}}, {"p": {"q": {"s": 2}}}
    assert merge(below, above) == {"p": {"name": "lstm", "q": {"r": 1, "s": 2}}}
    assert (below, above) == ({"p": {"name": "lstm", "q": {"r": 1}}}, {"p": {"q": {"s": 2}}})
