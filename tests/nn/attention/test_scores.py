"""Requirements on every score function. Each formula is tested in its own file."""

import pytest
import torch

from seqloom.errors import ShapeError
from seqloom.registry import build, parts
from tests.nn.attention.formulas import B, S, T, compute_scores, make_score
from tests.nn.helpers import assert_equal
from tests.variants import every, label

every_score = pytest.mark.parametrize("spec", every("score"), ids=label)


@every_score
def test_projected_keys_are_independent_of_queries(spec):
    """Keys are projected once; a call may have one query or several."""
    score, queries, keys = make_score(spec)
    projected = score.project_keys(keys)
    whole = score(queries, projected)
    for t in range(T):
        step = score(queries[:, t : t + 1], projected, torch.full((B, 1), t))
        assert_equal(step, whole[:, t : t + 1])
    assert_equal(score.project_keys(keys[:, 1:3]), projected[:, 1:3])


@every_score
def test_rows_are_scored_independently(spec):
    score, queries, keys = make_score(spec)
    whole = compute_scores(score, queries, keys)
    assert whole.shape == (B, T, S)
    for b in range(B):
        assert_equal(compute_scores(score, queries[b : b + 1], keys[b : b + 1]), whole[b : b + 1])


@pytest.mark.parametrize("name", parts("score"))
def test_scores_accept_different_sizes_or_explain_how_to_project(name):
    _, queries, _ = make_score(name)
    keys = torch.ones(B, S, 3, dtype=torch.float64)
    try:
        assert compute_scores(build("score", name, 4, 3).double(), queries, keys).shape == (B, T, S)
    except ShapeError:
        with pytest.raises(ShapeError, match=rf"'{name}'.*size 4.*size 3.*key_layers: 1.*'bilinear' or 'additive'"):
            build("score", name, 4, 3)
