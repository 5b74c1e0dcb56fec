"""Merging of nested settings."""

import pytest

from seqloom.merge import by_path, merge


@pytest.mark.parametrize(
    ("base", "override", "merged"),
    [
        ({"p": "lstm"}, {"p": {"bias": 0}}, {"p": {"name": "lstm", "bias": 0}}),
        ({"p": {"name": "lstm", "bias": 0}}, {"p": "lstm"}, {"p": {"name": "lstm", "bias": 0}}),
        ({"p": {"name": "lstm", "bias": 0}}, {"p": "gru"}, {"p": "gru"}),
        ({"p": {"name": "lstm", "bias": 0}}, {"p": {"name": "gru", "z": 1}}, {"p": {"name": "gru", "z": 1}}),
        ({"p": {"lr": 1}}, {"p": "adam"}, {"p": {"lr": 1, "name": "adam"}}),
        ({"p": {"lr": 1}}, {"p": None}, {"p": None}),
    ],
)
def test_replaced_part_loses_options_of_old_part(base, override, merged):
    assert merge(base, override) == merged


def test_dotted_paths_are_expanded_in_order():
    settings = {"a.b": 1, "a.c.d": 2, "e": {"f": 3}, "e.g": 4, "a.b.h": 5, "i": "lstm", "i.bias": 0}
    nested = {"a": {"b": {"h": 5}, "c": {"d": 2}}, "e": {"f": 3, "g": 4}, "i": {"name": "lstm", "bias": 0}}
    assert by_path(settings) == nested


def test_merge_does_not_change_arguments():
    base, override = {"p": {"name": "lstm", "q": {"r": 1}}}, {"p": {"q": {"s": 2}}}
    assert merge(base, override) == {"p": {"name": "lstm", "q": {"r": 1, "s": 2}}}
    assert (base, override) == ({"p": {"name": "lstm", "q": {"r": 1}}}, {"p": {"q": {"s": 2}}})
