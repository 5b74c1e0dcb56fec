"""``fit`` and ``load``: a model from plain lists, and what it can do."""

import math
import signal

import pytest
import torch

import seqloom
from seqloom.data.readers import Files
from seqloom.errors import InputError, OptionError, SeqloomError
from seqloom.train.display import Display
from seqloom.train.start import resume
from tests.train.small import PAIRS

SETTINGS = {"train.epochs": 60, "train.optimiser.rate": 0.01, "train.evaluate_every": 100}
PLAIN = [(e.source, e.target) for e in PAIRS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("api") / "run"


@pytest.fixture(scope="module")
def model(folder):
    torch.set_num_threads(1)
    return seqloom.fit(
        PLAIN, dev=PLAIN[::5], size=24, settings={**SETTINGS, "model.dropout": 0.0}, out=folder, quiet=True
    )


def test_it_learns(model):
    right = sum(
        answer == target for answer, (_, target) in zip(model.predict(s for s, _ in PLAIN), PLAIN, strict=True)
    )
    assert right >= 95


def test_one_source_gives_one_text_and_several_give_a_list(model):
    assert model.predict("afk") == "kfa"
    assert model.predict(["afk", "", "bgl"]) == ["kfa", "", "lgb"]
    assert model.predict([]) == []


def test_answers_carry_what_they_rest_on(model):
    (answers,) = model.answers(["afk"], search="beam", width=3, n_best=3)
    best = answers[0]
    assert (best.text, best.tokens, best.source_tokens) == ("kfa", list("kfa"), list("afk"))
    assert best.finished
    assert math.isclose(sum(best.token_log_probs), best.log_prob, rel_tol=1e-5)
    assert best.weights.shape == (4, 3)
    assert best.weights.sum(1).tolist() == pytest.approx([1] * 4, abs=1e-5)
    assert [a.value for a in answers] == sorted((a.value for a in answers), reverse=True)


def test_an_alignment_goes_with_every_answer_but_not_with_its_end(model):
    for answers in model.answers(["afk", "cgm"], search="beam", width=4, n_best=4):
        for answer in answers:
            greatest = answer.weights[: len(answer.tokens)].numpy().argmax(1).tolist()
            assert answer.alignment == [(s, t) for t, s in enumerate(greatest)]
            assert answer.words().target == answer.tokens
            assert answer.words().alignment == answer.alignment


def test_constraints_are_options_like_those_of_the_search(model):
    assert model.predict(["afk", "bgl"], prefix=["l", ""])[0].startswith("l")
    assert model.predict(["afk", "bgl"], prefix=["l", ""])[1] == "lgb"
    assert "k" not in model.predict("afk", forbid="k", search="greedy")
    assert "m" in model.predict("afk", require="m", width=8)
    kept, changed = model.predict(["afk", "bgl"], require=[[], ["c"]], width=8)
    assert (kept, "c" in changed) == ("kfa", True)
    twice = model.answers(["afk"], search="sample", samples=20, temperature=5.0, no_repeat=1)[0]
    assert all(len(set(answer.tokens)) == len(answer.tokens) for answer in twice)


def test_what_is_cut_off_says_so(model):
    (answers,) = model.answers(["afk"], search="greedy", max_length=1)
    assert [answer.finished for answer in answers] == [False]
    assert len(answers[0].tokens) == len(answers[0].token_log_probs) == len(answers[0].weights) == 1


def test_a_score_is_what_search_reports(model):
    (answers,) = model.answers(["afk"], search="greedy")
    (score,) = model.score(["afk"], [answers[0].text])
    assert score.log_prob == pytest.approx(answers[0].log_prob, abs=1e-5)
    assert score.token_log_probs == pytest.approx(answers[0].token_log_probs, abs=1e-5)


def test_a_text_is_one_sentence_and_not_so_many_letters(model):
    assert [a.text for a in model.answers("afk", width=3, n_best=3)] == [
        a.text for a in model.answers(["afk"], width=3, n_best=3)[0]
    ]
    assert model.score("afk", "kfa").log_prob == pytest.approx(model.score(["afk"], ["kfa"])[0].log_prob)
    with pytest.raises(InputError, match="two texts, or two lists"):
        model.score("afk", ["kfa"])


def test_evaluation(model, tmp_path):
    report = model.evaluate(PLAIN)
    assert report["exact"].value >= 95
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in PLAIN), encoding="utf-8")
    for data in (str(path), path, [path], Files.of(str(path)), iter(PLAIN)):
        assert model.evaluate(data)["exact"].value == report["exact"].value
    comparison = model.compare(model, PLAIN, metrics=["exact"])
    assert comparison.differences[0].p_value == 1


def test_pairs_with_an_empty_side_are_left_out_of_an_evaluation_wherever_they_are(model, tmp_path):
    pairs = [("afk", "kfa"), ("", "lgb"), ("bgl", " ")]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    for data in (pairs, path):
        assert model.evaluate(data, bootstrap=0).examples == 1
        assert model.compare(model, data).examples == 1


def test_pairs_to_train_on_may_come_one_by_one():
    quick = {"train.updates": 2, "train.evaluate_every": 2, "search": "greedy"}
    model = seqloom.fit(iter(PLAIN[:20]), size=8, settings=quick, quiet=True)
    assert isinstance(model.predict("afk"), str)


def test_a_loaded_model_is_the_one_that_was_trained(model, folder):
    loaded = seqloom.load(folder)
    assert loaded.predict(["afk", "cgm"]) == model.predict(["afk", "cgm"])
    assert not loaded.network.training


def test_what_makes_no_sense_is_refused(model, folder, tmp_path):
    for call, error, says in (
        (lambda: seqloom.load(tmp_path), OptionError, "is not a run"),
        (lambda: seqloom.fit(["ab", "cd"]), SeqloomError, "ab"),
        (lambda: seqloom.fit([]), InputError, "the list of pairs of train is empty"),
        (lambda: seqloom.fit(PLAIN, dev=[]), InputError, "the list of pairs of dev is empty"),
        (lambda: seqloom.fit([("a", 1)]), InputError, "pair 0"),
        (lambda: seqloom.fit(PLAIN, preset="bahdanu", quiet=True), SeqloomError, "did you mean 'bahdanau'"),
        (lambda: seqloom.fit(PLAIN, settings={"train.epoch": 1}), OptionError, "did you mean 'epochs'"),
        (lambda: model.predict("a", search="baem"), SeqloomError, "did you mean 'beam'"),
        (lambda: model.predict("a", search="beam", widht=3), SeqloomError, "did you mean 'width'"),
        (
            lambda: model.predict("a", search="greedy", width=3),
            OptionError,
            "'greedy' has no width; these have: beam",
        ),
        (lambda: model.predict("a", forbids="b"), SeqloomError, "did you mean 'forbid'"),
        (lambda: model.predict("a", search="sample", require="b"), OptionError, "use search 'beam'"),
        (lambda: model.predict(["a", "b"], prefix=["b"]), SeqloomError, "1 entries for 2 sources"),
        (lambda: seqloom.load([]), OptionError, "no run is named"),
        (lambda: seqloom.load(folder, average="probabilities"), OptionError, "name several"),
        (lambda: model.evaluate([]), InputError, "no pair"),
        (lambda: model.score(["a"], []), SeqloomError, "each source needs one target"),
    ):
        with pytest.raises(error) as raised:
            call()
        assert says in str(raised.value)


class Impatient(Display):
    """Presses Ctrl-C at the first evaluation."""

    said = ""

    def say(self, text):
        self.said += f"{text}\n"

    def judged(self, judged):
        signal.raise_signal(signal.SIGINT)


def test_a_model_that_was_stopped_is_not_taken_for_a_trained_one(tmp_path):
    quick = {"train.updates": 6, "train.evaluate_every": 2, "search": "greedy"}
    for out, says in ((None, "nothing is kept"), (tmp_path / "run", f"seqloom train --resume {tmp_path}/run")):
        display = Impatient()
        with pytest.raises(KeyboardInterrupt, match=says):
            seqloom.fit(PLAIN[:20], size=8, settings=quick, out=out, display=display)
        assert "stopped after update 2" in display.said
        assert "--resume" not in display.said
    assert resume(tmp_path / "run", {}, display=Display()).finished


@pytest.mark.parametrize(
    ("field", "value"),
    [("train", ["x.tsv"]), ("dev", ["x.tsv"]), ("format", "tsv"), ("columns", [1, 0]), ("header", True)],
)
def test_settings_of_files_are_refused_where_pairs_are_given(field, value):
    """They were ignored."""
    with pytest.raises(OptionError, match=rf"given as they are: leave out data\.{field}"):
        seqloom.fit(PLAIN, dev=PLAIN[:9], settings={f"data.{field}": value}, quiet=True)


@pytest.mark.parametrize("preset", ["bahdanau", "cho", "luong", "sutskever", "transformer"])
def test_every_preset_trains(preset):
    quick = {"train.updates": 2, "train.evaluate_every": 2, "search": "greedy"}
    model = seqloom.fit(PLAIN[:20], preset=preset, size=8, settings=quick, quiet=True)
    assert isinstance(model.predict("afk"), str)


def test_attention_to_its_own_past_is_no_alignment():
    past = {
        "model.decoder.context": "past",
        "model.bridge": "perceptron",
        "train.updates": 2,
        "model.preset": "luong",
    }
    model = seqloom.fit([("a b c d", "b a")] * 8, size=8, settings=past, quiet=True)
    ((answer, *_),) = model.answers(["a b c d"])
    assert answer.weights is None
    assert answer.words().alignment is None


@pytest.fixture(scope="module")
def lowercasing():
    """A model that cuts targets into as many tokens as ``model``, but has never seen a capital."""
    settings = {"train.updates": 2, "data.target": {"name": "character", "lowercase": True}}
    return seqloom.fit(PLAIN[:20], dev=PLAIN[:4], size=8, settings=settings, quiet=True)


def test_a_comparison_judges_alike_whichever_model_comes_first(model, lowercasing):
    data = [(source, target.upper()) for source, target in PLAIN[:5]]
    one, other = model.compare(lowercasing, data), lowercasing.compare(model, data)
    assert [d.metric.label for d in one.differences] == ["exact lowercase=True"]
    assert [(d.metric.label, d.a, d.b) for d in one.differences] == [
        (d.metric.label, d.b, d.a) for d in other.differences
    ]


def test_a_comparison_judges_by_what_suits_either_target(model):
    settings = {"train.updates": 2, "data.target": "symbols"}
    words = seqloom.fit(PLAIN[:20], dev=PLAIN[:4], size=8, settings=settings, quiet=True)
    one, other = model.compare(words, PLAIN[:5]), words.compare(model, PLAIN[:5])
    assert {d.metric.label for d in one.differences} == {"exact", "wer", "ser"}
    assert {d.metric.label for d in one.differences} == {d.metric.label for d in other.differences}


def test_perplexities_of_different_tokens_are_not_compared(model, lowercasing):
    """Even where they are as many."""
    with pytest.raises(OptionError, match="perplexity counts tokens, and the two models cut the targets into differ"):
        model.compare(lowercasing, PLAIN[:5], metrics=["exact", "perplexity"])
