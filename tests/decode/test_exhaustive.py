"""Exhaustive search: it finds all hypotheses, and raises an error if there are too many."""

import pytest
import torch

from seqloom import Batch
from seqloom.decode.exhaustive import Exhaustive
from seqloom.errors import ConfigError
from tests.decode.reference import BY_HAND, DIVISORS, TableModel, all_hypotheses, batch_for, random_table, real_model

TABLES = [torch.tensor(BY_HAND, dtype=torch.float64), random_table(1), random_table(2, sharpness=3.0)]


@pytest.mark.parametrize("length_penalty", sorted(DIVISORS))
@pytest.mark.parametrize("table", TABLES)
def test_exhaustive_search_finds_all_hypotheses(table, length_penalty):
    expected = all_hypotheses(table, length_penalty, 1, 4)
    by_tokens = {h.tokens: h for h in expected}
    for n_best in (1, 5, len(expected), len(expected) + 9):
        search = Exhaustive(n_best=n_best, length_penalty=length_penalty, min_length=1, max_length=4)
        (found,) = search(TableModel(table), Batch.from_lists(None, [[0, 7]]))
        assert len(found) == len({tuple(h.tokens) for h in found}) == min(n_best, len(expected))
        assert [h.score for h in found] == pytest.approx([h.score for h in expected[:n_best]], abs=1e-10)
        for h in found:
            assert h.finished
            assert h.log_prob == pytest.approx(by_tokens[tuple(h.tokens)].log_prob, abs=1e-10)


def test_too_many_hypotheses_raise_error():
    """97 of 100 tokens are allowed at every step."""
    model = real_model("bahdanau", vocabulary=100)
    with pytest.raises(ConfigError, match="912673 partial hypotheses of 3 tokens, and the vocabulary has 100 tokens"):
        Exhaustive(length_penalty="average")(model, batch_for(model, [[3, 4]]))
