"""Scaled dot-product attention."""

import math

import pytest

from tests.nn.attention.formulas import check_score


@pytest.mark.parametrize(("by", "scale"), [("root", math.sqrt), ("size", float)])
def test_formula(by, scale):
    check_score({"name": "scaled_dot", "by": by}, lambda score, q, k: q @ k / scale(len(q)))
