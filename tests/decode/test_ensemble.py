"""Ensembles: several models as one, against averages written out."""

import itertools

import pytest
import torch

from seqloom import Batch
from seqloom.batch import END, START
from seqloom.decode import Ensemble, Masks
from seqloom.decode.beam import Beam
from seqloom.decode.greedy import Greedy
from seqloom.decode.sample import Sample
from seqloom.decode.score import score
from seqloom.errors import OptionError, SeqloomError, SizeError
from tests.decode.plain import BY_HAND, CONTENT, TableModel, drawn, real_model

SOURCES = [[3, 8, 4, 5, 7], [7], [6, 6]]
AVERAGES = ["probabilities", "log_probabilities"]


def mixed(vocabulary: int = 6) -> list:
    return [real_model(preset, seed=n, vocabulary=vocabulary) for n, preset in enumerate(["bahdanau", "transformer"])]


def all_log_probs(model, target: list[int], source: list[int]) -> torch.Tensor:
    """T V: of every token at every step of a target, by teacher forcing."""
    batch = Batch.of([target], [source])
    with torch.no_grad():
        fed = torch.tensor([[START, *target]])
        return model.output.logits(model(fed, model.encode(batch)).features)[0].log_softmax(-1)


@pytest.mark.parametrize("average", AVERAGES)
def test_all_answers_have_the_probability_of_the_average(average):
    models = mixed()
    strings = [list(s) for n in range(3) for s in itertools.product(CONTENT, repeat=n)]
    found = Beam(width=99, n_best=99, max_length=2)(Ensemble(models, average=average), Batch.of(None, SOURCES))
    for source, answers in zip(SOURCES, found, strict=True):
        assert sorted(h.tokens for h in answers) == sorted(strings)
        for h in answers:
            p = torch.stack([all_log_probs(model, h.tokens, source) for model in models]).exp()
            if average == "probabilities":
                mean = p.sum(0) / 2
            else:
                mean = (p[0] * p[1]).sqrt()
                mean = mean / mean.sum(-1, keepdim=True)
            expected = [mean[t, v].log().item() for t, v in enumerate([*h.tokens, END])]
            assert h.token_log_probs == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("search", [Greedy(), Beam(width=3, n_best=3), Sample(samples=3)])
def test_a_sentence_alone_is_what_it_is_in_a_batch_and_as_it_is_scored(average, search):
    ensemble = Ensemble([*mixed(9), real_model("sutskever", vocabulary=9)], average=average)
    found = search(ensemble, Batch.of(None, SOURCES), masks=Masks(no_repeat=3))
    ended = 0
    for source, answers in zip(SOURCES, found, strict=True):
        (alone,) = search(ensemble, Batch.of(None, [source]), masks=Masks(no_repeat=3))
        assert [h.tokens for h in answers] == [h.tokens for h in alone]
        for h, other in zip(answers, alone, strict=True):
            assert h.weights is None
            assert h.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-10)
            ended += h.finished
            if h.finished:
                scored = score(ensemble, Batch.of([h.tokens], [source]))
                assert scored.log_probs[0].tolist() == pytest.approx(h.token_log_probs, abs=1e-10)
    assert ended


def test_one_model_and_twice_the_same_are_the_model():
    model, batch = real_model("luong", vocabulary=9), Batch.of(None, SOURCES)
    plain = Beam(n_best=3, coverage=0.1)(model, batch)
    for models, average in itertools.product([[model], [model, model]], AVERAGES):
        found = Beam(n_best=3, coverage=0.1)(Ensemble(models, average=average), batch)
        for one, other in zip(plain, found, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]
            assert [h.value for h in one] == pytest.approx([h.value for h in other], abs=1e-10)
            torch.testing.assert_close(one[0].weights, other[0].weights)


def test_attention_is_the_mean():
    models, batch = mixed(), Batch.of(None, SOURCES)
    for source, (h,) in zip(SOURCES, Greedy(max_length=4)(Ensemble(models), batch), strict=True):
        fed = torch.tensor([[START, *h.tokens]])[:, : len(h.token_log_probs)]
        with torch.no_grad():
            alone = [model(fed, model.encode(Batch.of(None, [source])), attention=True).attention for model in models]
        torch.testing.assert_close(h.weights, (alone[0] + alone[1])[0] / 2, rtol=0, atol=1e-10)


def test_each_may_have_sources_of_its_own():
    """The second reads everything twice: its steps are others, so the two have no attention in common."""
    first, second = TableModel(BY_HAND), TableModel(drawn(1), drawn(2))
    batches = [Batch.of(None, [[0], [0]]), Batch.of(None, [[0, 0], [1, 1]])]
    found = Greedy(max_length=5)(Ensemble([first, second]), batches)
    for (h,), table in zip(found, [drawn(1), drawn(2)], strict=True):
        tables = (torch.tensor(BY_HAND, dtype=torch.float64) + table) / 2
        last, expected = START, []
        for t in range(6):
            last = int(tables[t, last, 2:].argmax()) + 2
            expected.append(last)
            if last == END or t == 5:
                break
        assert h.tokens == expected[:-1]
        assert h.weights is None


def test_what_makes_no_ensemble():
    with pytest.raises(OptionError, match="no models"):
        Ensemble([])
    batch = Batch.of(None, SOURCES)
    with pytest.raises(SizeError, match=r"vocabularies of \[6, 9\] tokens"):
        Greedy()(Ensemble([real_model("luong"), real_model("luong", vocabulary=9)]), batch)
    with pytest.raises(SizeError, match="1 batches for 2 models"):
        Greedy()(Ensemble(mixed()), [batch])
    with pytest.raises(SizeError, match=r"batches of \[3, 1\] sentences"):
        Greedy()(Ensemble(mixed()), [batch, Batch.of(None, [[4]])])
    models = mixed()
    models[1].train()
    with pytest.raises(SeqloomError, match="eval"):
        Greedy()(Ensemble(models), batch)


def test_attention_to_different_steps_has_no_mean():
    """Models that read the same source in other tokens, which happen to be as many."""
    models = [real_model("bahdanau", seed=n) for n in range(2)]
    batches = [Batch.of(None, [source]) for source in ([4, 5, 6], [6, 4, 5])]
    assert Greedy()(Ensemble(models), batches)[0][0].weights is None
    assert Greedy()(Ensemble(models), batches[0])[0][0].weights is not None
    with pytest.raises(OptionError, match="no attention"):
        Beam(coverage=0.2)(Ensemble(models), batches)


def test_attention_to_a_past_is_not_averaged_with_attention_to_a_source():
    """At the step that has as many before it as the source has steps, they were."""
    past = real_model("luong", **{"decoder.context": "past", "decoder.attention.score": "dot"})
    (answers,) = Greedy(min_length=5, max_length=5)(
        Ensemble([real_model("luong"), past]), Batch.of(None, [[4, 5, 6]])
    )
    assert answers[0].weights is None


@pytest.mark.parametrize("steps", [1, 3])
def test_attention_to_a_past_is_never_taken_for_attention_to_a_source(steps):
    past = real_model("luong", **{"decoder.context": "past", "decoder.include_current": True})
    for model in (past, Ensemble([past, past])):
        (answers,) = Greedy(min_length=steps - 1, max_length=steps)(model, Batch.of(None, [[4]]))
        assert not answers[0].on_source
        assert answers[0].weights.shape == (len(answers[0].token_log_probs),) * 2
