"""Exhaustive search: all there is, and no more than can be borne."""

import pytest
import torch

from seqloom import Batch
from seqloom.decode.exhaustive import Exhaustive
from seqloom.errors import OptionError
from tests.decode.plain import BY_HAND, DIVISORS, TableModel, batch_for, drawn, every_answer, real_model

TABLES = [torch.tensor(BY_HAND, dtype=torch.float64), drawn(1), drawn(2, sharpness=3.0)]


@pytest.mark.parametrize("normalisation", sorted(DIVISORS))
@pytest.mark.parametrize("table", TABLES)
def test_it_finds_everything(table, normalisation):
    every = every_answer(table, normalisation, 1, 4)
    by_tokens = {answer.tokens: answer for answer in every}
    for n_best in (1, 5, len(every), len(every) + 9):
        search = Exhaustive(n_best=n_best, normalisation=normalisation, min_length=1, max_length=4)
        (found,) = search(TableModel(table), Batch.of(None, [[0, 7]]))
        assert len(found) == len({tuple(h.tokens) for h in found}) == min(n_best, len(every))
        assert [h.value for h in found] == pytest.approx([answer.value for answer in every[:n_best]], abs=1e-10)
        for h in found:
            assert h.finished
            assert h.log_prob == pytest.approx(by_tokens[tuple(h.tokens)].log_prob, abs=1e-10)


def test_too_much_is_refused():
    """Of 100 tokens 97 can follow anything."""
    model = real_model("bahdanau", vocabulary=100)
    with pytest.raises(OptionError, match="912673 beginnings of 3 tokens, and a vocabulary of 100"):
        Exhaustive(normalisation="average")(model, batch_for(model, [[3, 4]]))
