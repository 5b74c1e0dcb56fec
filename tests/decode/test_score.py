"""Scoring given targets."""

import numpy as np
import pytest
import torch

from seqloom import Batch
from seqloom.batch import EOS, shift
from seqloom.decode.beam import Beam
from seqloom.decode.score import score
from seqloom.errors import InputError, SeqloomError
from tests.decode.reference import batch_for, real_model

SOURCES = [[3, 8, 4, 5, 7], [7], [6, 6]]


@pytest.mark.parametrize("preset", ["attention-lm", "bahdanau", "luong", "transformer"])
def test_scores_equal_log_probs_of_search(preset):
    model = real_model(preset, seed=2, vocabulary=9).float()
    found = Beam(beam_size=9, n_best=4, max_length=6)(model, batch_for(model, SOURCES))
    for source, hypotheses in zip(SOURCES, found, strict=True):
        finished = [h for h in hypotheses if h.finished]
        assert finished
        sources = None if preset == "attention-lm" else [source] * len(finished)
        scored = score(model, Batch.from_lists([h.tokens for h in finished], sources))
        assert scored.total.tolist() == pytest.approx([h.log_prob for h in finished], abs=1e-5)
        for h, row, real in zip(finished, scored.log_probs, scored.mask, strict=True):
            assert row[real].tolist() == pytest.approx(h.token_log_probs, abs=1e-5)


@pytest.mark.parametrize("rows", [1, 4, 512])
def test_log_probs_and_correct_equal_numpy(rows, monkeypatch):
    """For chunks of any size."""
    monkeypatch.setattr("seqloom.models.base.MAX_ROWS", rows)
    model = real_model("bahdanau", seed=5)
    targets = [[3, 5, 4, 3], [], [5]]
    batch = Batch.from_lists(targets, SOURCES)
    scored = score(model, batch)
    with torch.no_grad():
        memory = model.encode(batch)
        z = model.output.logits(model(shift(model.output.start(memory), batch.target), memory).features).numpy()
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    for b, target in enumerate(targets):
        for t in range(5):
            valid = t <= len(target)
            y = [*target, EOS][t] if valid else None
            assert bool(scored.mask[b, t]) == valid
            assert float(scored.log_probs[b, t]) == pytest.approx(log_p[b, t, y] if valid else 0.0, abs=1e-10)
            assert bool(scored.correct[b, t]) == (valid and log_p[b, t].argmax() == y)
    assert scored.correct.any()
    assert not scored.correct[scored.mask].all()


def test_invalid_input_raises_errors():
    model = real_model("bahdanau")
    with pytest.raises(InputError, match="no target"):
        score(model, Batch.from_lists(None, SOURCES))
    with pytest.raises(SeqloomError, match="eval"):
        score(model.train(), Batch.from_lists([[3]] * 3, SOURCES))
