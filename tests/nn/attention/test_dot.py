"""Dot-product attention."""

from tests.nn.attention.formulas import check_score


def test_formula():
    check_score("dot", lambda score, q, k: q @ k)
