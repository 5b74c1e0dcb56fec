"""Ensembles: compared with explicit averages."""

import itertools

import pytest
import torch

from seqloom import Batch
from seqloom.batch import BOS, EOS
from seqloom.decode import Ensemble, TokenConstraints
from seqloom.decode.beam import Beam
from seqloom.decode.greedy import Greedy
from seqloom.decode.sample import Sample
from seqloom.decode.score import score
from seqloom.errors import ConfigError, SeqloomError, ShapeError
from tests.decode.reference import BY_HAND, CONTENT, TableModel, random_table, real_model

SOURCES = [[3, 8, 4, 5, 7], [7], [6, 6]]
MODES = ["probs", "log_probs"]


def mixed_models(vocabulary: int = 6) -> list:
    return [real_model(preset, seed=n, vocabulary=vocabulary) for n, preset in enumerate(["bahdanau", "transformer"])]


def all_log_probs(model, target: list[int], source: list[int]) -> torch.Tensor:
    """T V: log-probabilities of all tokens at every step of a target, under teacher forcing."""
    batch = Batch.from_lists([target], [source])
    with torch.no_grad():
        fed = torch.tensor([[BOS, *target]])
        return model.output.logits(model(fed, model.encode(batch)).features)[0].log_softmax(-1)


@pytest.mark.parametrize("mode", MODES)
def test_hypotheses_have_average_probabilities(mode):
    models = mixed_models()
    strings = [list(s) for n in range(3) for s in itertools.product(CONTENT, repeat=n)]
    found = Beam(beam_size=99, n_best=99, max_length=2)(Ensemble(models, mode=mode), Batch.from_lists(None, SOURCES))
    for source, hypotheses in zip(SOURCES, found, strict=True):
        assert sorted(h.tokens for h in hypotheses) == sorted(strings)
        for h in hypotheses:
            p = torch.stack([all_log_probs(model, h.tokens, source) for model in models]).exp()
            if mode == "probs":
                mean = p.sum(0) / 2
            else:
                mean = (p[0] * p[1]).sqrt()
                mean = mean / mean.sum(-1, keepdim=True)
            expected = [mean[t, v].log().item() for t, v in enumerate([*h.tokens, EOS])]
            assert h.token_log_probs == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("search", [Greedy(), Beam(beam_size=3, n_best=3), Sample(samples=3)])
def test_ensemble_log_probs_are_independent_of_the_batch_and_equal_scoring(mode, search):
    ensemble = Ensemble([*mixed_models(9), real_model("sutskever", vocabulary=9)], mode=mode)
    found = search(ensemble, Batch.from_lists(None, SOURCES), constraints=TokenConstraints(no_repeat_ngram_size=3))
    finished = 0
    for source, hypotheses in zip(SOURCES, found, strict=True):
        (alone,) = search(
            ensemble, Batch.from_lists(None, [source]), constraints=TokenConstraints(no_repeat_ngram_size=3)
        )
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        for h, other in zip(hypotheses, alone, strict=True):
            assert h.attention is None
            assert h.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-10)
            finished += h.finished
            if h.finished:
                scored = score(ensemble, Batch.from_lists([h.tokens], [source]))
                assert scored.log_probs[0].tolist() == pytest.approx(h.token_log_probs, abs=1e-10)
    assert finished


def test_ensemble_of_copies_equals_the_model():
    model, batch = real_model("luong", vocabulary=9), Batch.from_lists(None, SOURCES)
    plain = Beam(n_best=3, coverage_penalty=0.1)(model, batch)
    for models, mode in itertools.product([[model], [model, model]], MODES):
        found = Beam(n_best=3, coverage_penalty=0.1)(Ensemble(models, mode=mode), batch)
        for one, other in zip(plain, found, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-10)
            torch.testing.assert_close(one[0].attention, other[0].attention)


def test_attention_is_averaged():
    models, batch = mixed_models(), Batch.from_lists(None, SOURCES)
    for source, (h,) in zip(SOURCES, Greedy(max_length=4)(Ensemble(models), batch), strict=True):
        fed = torch.tensor([[BOS, *h.tokens]])[:, : len(h.token_log_probs)]
        with torch.no_grad():
            alone = [
                model(fed, model.encode(Batch.from_lists(None, [source])), attention=True).attention
                for model in models
            ]
        torch.testing.assert_close(h.attention, (alone[0] + alone[1])[0] / 2, rtol=0, atol=1e-10)


def test_models_may_have_different_source_batches():
    """The source of the second is doubled: its positions differ, so there is no common attention."""
    first, second = TableModel(BY_HAND), TableModel(random_table(1), random_table(2))
    batches = [Batch.from_lists(None, [[0], [0]]), Batch.from_lists(None, [[0, 0], [1, 1]])]
    found = Greedy(max_length=5)(Ensemble([first, second]), batches)
    for (h,), table in zip(found, [random_table(1), random_table(2)], strict=True):
        tables = (torch.tensor(BY_HAND, dtype=torch.float64) + table) / 2
        last, expected = BOS, []
        for t in range(6):
            last = int(tables[t, last, 2:].argmax()) + 2
            expected.append(last)
            if last == EOS or t == 5:
                break
        assert h.tokens == expected[:-1]
        assert h.attention is None


def test_invalid_ensembles_raise_errors():
    with pytest.raises(ConfigError, match="needs at least one model"):
        Ensemble([])
    batch = Batch.from_lists(None, SOURCES)
    with pytest.raises(ShapeError, match=r"vocabularies have \[6, 9\] tokens"):
        Greedy()(Ensemble([real_model("luong"), real_model("luong", vocabulary=9)]), batch)
    with pytest.raises(ShapeError, match="1 batches for 2 models"):
        Greedy()(Ensemble(mixed_models()), [batch])
    with pytest.raises(ShapeError, match=r"batches have \[3, 1\] sentences"):
        Greedy()(Ensemble(mixed_models()), [batch, Batch.from_lists(None, [[4]])])
    models = mixed_models()
    models[1].train()
    with pytest.raises(SeqloomError, match="eval"):
        Greedy()(Ensemble(models), batch)


def test_attention_to_different_tokenizations_is_not_averaged():
    """Different tokenizations of a source, by chance of the same length, have no common attention."""
    models = [real_model("bahdanau", seed=n) for n in range(2)]
    batches = [Batch.from_lists(None, [source]) for source in ([4, 5, 6], [6, 4, 5])]
    assert Greedy()(Ensemble(models), batches)[0][0].attention is None
    assert Greedy()(Ensemble(models), batches[0])[0][0].attention is not None
    with pytest.raises(ConfigError, match="no attention"):
        Beam(coverage_penalty=0.2)(Ensemble(models), batches)


def test_attention_to_the_past_is_not_averaged_with_attention_to_the_source():
    """Also at the step with as many past positions as source positions."""
    past = real_model("luong", **{"decoder.context": "past", "decoder.attention.score": "dot"})
    (hypotheses,) = Greedy(min_length=5, max_length=5)(
        Ensemble([real_model("luong"), past]), Batch.from_lists(None, [[4, 5, 6]])
    )
    assert hypotheses[0].attention is None


@pytest.mark.parametrize("steps", [1, 3])
def test_attention_to_the_past_is_not_reported_as_attention_to_the_source(steps):
    past = real_model("luong", **{"decoder.context": "past", "decoder.include_current": True})
    for model in (past, Ensemble([past, past])):
        (hypotheses,) = Greedy(min_length=steps - 1, max_length=steps)(model, Batch.from_lists(None, [[4]]))
        assert not hypotheses[0].on_source
        assert hypotheses[0].attention.shape == (len(hypotheses[0].token_log_probs),) * 2
