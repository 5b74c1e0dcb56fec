"""Scoring a known target."""

import numpy as np
import pytest
import torch

from seqloom import Batch
from seqloom.batch import END, shift
from seqloom.decode.beam import Beam
from seqloom.decode.score import score
from seqloom.errors import InputError, SeqloomError
from tests.decode.plain import batch_for, real_model

SOURCES = [[3, 8, 4, 5, 7], [7], [6, 6]]


@pytest.mark.parametrize("preset", ["attention-lm", "bahdanau", "luong", "transformer"])
def test_it_is_what_search_reports(preset):
    model = real_model(preset, seed=2, vocabulary=9).float()
    found = Beam(width=9, n_best=4, max_length=6)(model, batch_for(model, SOURCES))
    for source, answers in zip(SOURCES, found, strict=True):
        finished = [h for h in answers if h.finished]
        assert finished
        sources = None if preset == "attention-lm" else [source] * len(finished)
        scored = score(model, Batch.of([h.tokens for h in finished], sources))
        assert scored.total.tolist() == pytest.approx([h.log_prob for h in finished], abs=1e-5)
        for h, row, real in zip(finished, scored.log_probs, scored.mask, strict=True):
            assert row[real].tolist() == pytest.approx(h.token_log_probs, abs=1e-5)


@pytest.mark.parametrize("rows", [1, 4, 512])
def test_log_probs_and_correct_by_numpy(rows, monkeypatch):
    """Whatever the size of the pieces."""
    monkeypatch.setattr("seqloom.models.base.ROWS", rows)
    model = real_model("bahdanau", seed=5)
    targets = [[3, 5, 4, 3], [], [5]]
    batch = Batch.of(targets, SOURCES)
    scored = score(model, batch)
    with torch.no_grad():
        memory = model.encode(batch)
        z = model.output.logits(model(shift(model.output.start(memory), batch.target), memory).features).numpy()
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    for b, target in enumerate(targets):
        for t in range(5):
            real = t <= len(target)
            y = [*target, END][t] if real else None
            assert bool(scored.mask[b, t]) == real
            assert float(scored.log_probs[b, t]) == pytest.approx(log_p[b, t, y] if real else 0.0, abs=1e-10)
            assert bool(scored.correct[b, t]) == (real and log_p[b, t].argmax() == y)
    assert scored.correct.any()
    assert not scored.correct[scored.mask].all()


def test_what_can_not_be_scored():
    model = real_model("bahdanau")
    with pytest.raises(InputError, match="no target"):
        score(model, Batch.of(None, SOURCES))
    with pytest.raises(SeqloomError, match="eval"):
        score(model.train(), Batch.of([[3]] * 3, SOURCES))
