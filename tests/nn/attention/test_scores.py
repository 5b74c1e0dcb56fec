"""What every score must do; its own formula is in a file for each."""

import pytest
import torch

from seqloom.errors import SizeError
from seqloom.registry import build, parts
from tests.nn.attention.formulas import B, S, T, made, scored
from tests.nn.helpers import assert_equal
from tests.variants import every, label

every_score = pytest.mark.parametrize("spec", every("score"), ids=label)


@every_score
def test_a_prepared_key_serves_every_query_alone(spec):
    """Keys are prepared once; a step asks with one query, or several."""
    score, queries, keys = made(spec)
    prepared = score.prepare(keys)
    whole = score(queries, prepared)
    for t in range(T):
        step = score(queries[:, t : t + 1], prepared, torch.full((B, 1), t))
        assert_equal(step, whole[:, t : t + 1])
    assert_equal(score.prepare(keys[:, 1:3]), prepared[:, 1:3])


@every_score
def test_every_row_is_scored_alone(spec):
    score, queries, keys = made(spec)
    whole = scored(score, queries, keys)
    assert whole.shape == (B, T, S)
    for b in range(B):
        assert_equal(scored(score, queries[b : b + 1], keys[b : b + 1]), whole[b : b + 1])


@pytest.mark.parametrize("name", parts("score"))
def test_scores_take_any_two_sizes_or_say_how_to_get_to_one(name):
    _, queries, _ = made(name)
    keys = torch.ones(B, S, 3, dtype=torch.float64)
    try:
        assert scored(build("score", name, 4, 3).double(), queries, keys).shape == (B, T, S)
    except SizeError:
        with pytest.raises(SizeError, match=rf"'{name}'.*size 4.*size 3.*key_layers: 1.*'bilinear' or 'additive'"):
            build("score", name, 4, 3)
