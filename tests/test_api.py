"""The Python API: ``fit`` on lists, ``load``, and the methods of the model."""

import math
import signal

import pytest
import torch

import seqloom
from seqloom.data.readers import Files
from seqloom.errors import ConfigError, InputError, SeqloomError
from seqloom.train.display import Display
from seqloom.train.run import resume
from tests.train.small import PAIRS

SETTINGS = {
    "train.epochs": 30,
    "train.batch_sentences": 10,
    "train.optimizer.lr": 0.01,
    "train.evaluate_every": 100,
}
PLAIN = [(e.source, e.target) for e in PAIRS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("api") / "run"


@pytest.fixture(scope="module")
def model(folder):
    torch.set_num_threads(1)
    return seqloom.fit(
        PLAIN, dev=PLAIN[::5], hidden_size=24, overrides={**SETTINGS, "model.dropout": 0.0}, out=folder, quiet=True
    )


def test_fit_learns(model):
    predictions = model.predict(s for s, _ in PLAIN)
    correct = sum(prediction == target for prediction, (_, target) in zip(predictions, PLAIN, strict=True))
    assert correct >= 95


def test_predict_returns_text_for_one_source_and_list_for_several(model):
    assert model.predict("afk") == "kfa"
    assert model.predict(["afk", "", "bgl"]) == ["kfa", "", "lgb"]
    assert model.predict([]) == []


def test_predictions_have_tokens_scores_and_attention(model):
    (predictions,) = model.generate(["afk"], search="beam", beam_size=3, n_best=3)
    best = predictions[0]
    assert (best.text, best.tokens, best.source_tokens) == ("kfa", list("kfa"), list("afk"))
    assert best.finished
    assert math.isclose(sum(best.token_log_probs), best.log_prob, rel_tol=1e-5)
    assert best.attention.shape == (4, 3)
    assert best.attention.sum(1).tolist() == pytest.approx([1] * 4, abs=1e-5)
    assert [p.score for p in predictions] == sorted((p.score for p in predictions), reverse=True)


def test_alignment_covers_all_tokens_but_eos(model):
    for predictions in model.generate(["afk", "cgm"], search="beam", beam_size=4, n_best=4):
        for prediction in predictions:
            best = prediction.attention[: len(prediction.tokens)].numpy().argmax(1).tolist()
            assert prediction.alignment == [(s, t) for t, s in enumerate(best)]
            assert prediction.words().target == prediction.tokens
            assert prediction.words().alignment == prediction.alignment


def test_constraints_are_options_of_predict(model):
    assert model.predict(["afk", "bgl"], prefix=["l", ""])[0].startswith("l")
    assert model.predict(["afk", "bgl"], prefix=["l", ""])[1] == "lgb"
    assert "k" not in model.predict("afk", forbid="k", search="greedy")
    assert "m" in model.predict("afk", require="m", beam_size=8)
    unconstrained, constrained = model.predict(["afk", "bgl"], require=[[], ["c"]], beam_size=8)
    assert (unconstrained, "c" in constrained) == ("kfa", True)
    samples = model.generate(["afk"], search="sample", samples=20, temperature=5.0, no_repeat_ngram_size=1)[0]
    assert all(len(set(sample.tokens)) == len(sample.tokens) for sample in samples)


def test_truncated_prediction_is_not_finished(model):
    (predictions,) = model.generate(["afk"], search="greedy", max_length=1)
    assert [prediction.finished for prediction in predictions] == [False]
    best = predictions[0]
    assert len(best.tokens) == len(best.token_log_probs) == len(best.attention) == 1


def test_score_equals_log_prob_of_search(model):
    (predictions,) = model.generate(["afk"], search="greedy")
    (score,) = model.score(["afk"], [predictions[0].text])
    assert score.log_prob == pytest.approx(predictions[0].log_prob, abs=1e-5)
    assert score.token_log_probs == pytest.approx(predictions[0].token_log_probs, abs=1e-5)


def test_string_is_one_source(model):
    assert [a.text for a in model.generate("afk", beam_size=3, n_best=3)] == [
        a.text for a in model.generate(["afk"], beam_size=3, n_best=3)[0]
    ]
    assert model.score("afk", "kfa").log_prob == pytest.approx(model.score(["afk"], ["kfa"])[0].log_prob)
    with pytest.raises(InputError, match="must both be strings or both be lists"):
        model.score("afk", ["kfa"])


def test_evaluate_accepts_lists_and_files(model, tmp_path):
    report = model.evaluate(PLAIN)
    assert report["exact_match"].value >= 95
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in PLAIN), encoding="utf-8")
    for data in (str(path), path, [path], Files.of(str(path)), iter(PLAIN)):
        assert model.evaluate(data)["exact_match"].value == report["exact_match"].value
    comparison = model.compare(model, PLAIN, metrics=["exact_match"])
    assert comparison.differences[0].p_value == 1


def test_evaluate_skips_pairs_with_an_empty_side(model, tmp_path):
    pairs = [("afk", "kfa"), ("", "lgb"), ("bgl", " ")]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    for data in (pairs, path):
        assert model.evaluate(data, bootstrap=0).examples == 1
        assert model.compare(model, data).examples == 1


def test_fit_accepts_an_iterator():
    quick = {"train.updates": 2, "train.evaluate_every": 2, "search": "greedy"}
    model = seqloom.fit(iter(PLAIN[:20]), hidden_size=8, overrides=quick, quiet=True)
    assert isinstance(model.predict("afk"), str)


def test_loaded_model_equals_trained_model(model, folder):
    loaded = seqloom.load(folder)
    assert loaded.predict(["afk", "cgm"]) == model.predict(["afk", "cgm"])
    assert not loaded.network.training


def test_invalid_arguments_are_errors(model, folder, tmp_path):
    for call, error, message in (
        (lambda: seqloom.load(tmp_path), ConfigError, "is not a run"),
        (lambda: seqloom.fit(["ab", "cd"]), SeqloomError, "ab"),
        (lambda: seqloom.fit([]), InputError, "train: the list of pairs is empty"),
        (lambda: seqloom.fit(PLAIN, dev=[]), InputError, "dev: the list of pairs is empty"),
        (lambda: seqloom.fit([("a", 1)]), InputError, "pair 0"),
        (lambda: seqloom.fit(PLAIN, preset="bahdanu", quiet=True), SeqloomError, "did you mean 'bahdanau'"),
        (lambda: seqloom.fit(PLAIN, overrides={"train.epoch": 1}), ConfigError, "did you mean 'epochs'"),
        (lambda: model.predict("a", search="baem"), SeqloomError, "did you mean 'beam'"),
        (lambda: model.predict("a", search="beam", beam_szie=3), SeqloomError, "did you mean 'beam_size'"),
        (
            lambda: model.predict("a", search="greedy", beam_size=3),
            ConfigError,
            "'greedy' has no option beam_size; these searches have it: beam",
        ),
        (lambda: model.predict("a", forbids="b"), SeqloomError, "did you mean 'forbid'"),
        (lambda: model.predict("a", search="sample", require="b"), ConfigError, "use search 'beam'"),
        (lambda: model.predict(["a", "b"], prefix=["b"]), SeqloomError, "1 entries for 2 sources"),
        (lambda: seqloom.load([]), ConfigError, "there is no run to load"),
        (lambda: seqloom.load(folder, ensemble_mode="probs"), ConfigError, "give several runs"),
        (lambda: model.evaluate([]), InputError, "the data has no pairs"),
        (lambda: model.score(["a"], []), SeqloomError, "each source needs one target"),
    ):
        with pytest.raises(error) as raised:
            call()
        assert message in str(raised.value)


class InterruptingDisplay(Display):
    """Sends SIGINT (Ctrl-C) at the first validation."""

    text = ""

    def say(self, text):
        self.text += f"{text}\n"

    def validated(self, validated):
        signal.raise_signal(signal.SIGINT)


def test_interrupted_fit_raises_and_can_be_resumed(tmp_path):
    quick = {"train.updates": 6, "train.evaluate_every": 2, "search": "greedy"}
    for out, message in ((None, "nothing was saved"), (tmp_path / "run", f"seqloom train --resume {tmp_path}/run")):
        display = InterruptingDisplay()
        with pytest.raises(KeyboardInterrupt, match=message):
            seqloom.fit(PLAIN[:20], hidden_size=8, overrides=quick, out=out, display=display)
        assert "stopped after update 2" in display.text
        assert "--resume" not in display.text
    assert resume(tmp_path / "run", {}, display=Display()).finished


@pytest.mark.parametrize(
    ("field", "value"),
    [("train", ["x.tsv"]), ("dev", ["x.tsv"]), ("format", "tsv"), ("columns", [1, 0]), ("header", True)],
)
def test_file_options_with_pairs_are_errors(field, value):
    """They must not be ignored silently."""
    with pytest.raises(ConfigError, match=rf"given directly: remove data\.{field}"):
        seqloom.fit(PLAIN, dev=PLAIN[:9], overrides={f"data.{field}": value}, quiet=True)


@pytest.mark.parametrize("preset", ["bahdanau", "cho", "luong", "sutskever", "transformer"])
def test_every_preset_trains(preset):
    quick = {"train.updates": 2, "train.evaluate_every": 2, "search": "greedy"}
    model = seqloom.fit(PLAIN[:20], preset=preset, hidden_size=8, overrides=quick, quiet=True)
    assert isinstance(model.predict("afk"), str)


def test_attention_over_the_past_gives_no_alignment():
    past = {
        "model.decoder.context": "past",
        "model.bridge": "dense",
        "train.updates": 2,
        "model.preset": "luong",
    }
    model = seqloom.fit([("a b c d", "b a")] * 8, hidden_size=8, overrides=past, quiet=True)
    ((prediction, *_),) = model.generate(["a b c d"])
    assert prediction.attention is None
    assert prediction.words().alignment is None


@pytest.fixture(scope="module")
def lowercasing():
    """A model that tokenizes targets into as many tokens as ``model``, but lowercases them."""
    settings = {"train.updates": 2, "data.target_tokenizer": {"name": "character", "lowercase": True}}
    return seqloom.fit(PLAIN[:20], dev=PLAIN[:4], hidden_size=8, overrides=settings, quiet=True)


def test_comparison_is_symmetric(model, lowercasing):
    data = [(source, target.upper()) for source, target in PLAIN[:5]]
    one, other = model.compare(lowercasing, data), lowercasing.compare(model, data)
    assert [d.metric.label for d in one.differences] == ["exact_match lowercase=True", "chrf lowercase=True"]
    assert [(d.metric.label, d.a, d.b) for d in one.differences] == [
        (d.metric.label, d.b, d.a) for d in other.differences
    ]


def test_comparison_uses_metrics_that_fit_either_target(model):
    settings = {"train.updates": 2, "data.target_tokenizer": "whitespace"}
    words = seqloom.fit(PLAIN[:20], dev=PLAIN[:4], hidden_size=8, overrides=settings, quiet=True)
    one, other = model.compare(words, PLAIN[:5]), words.compare(model, PLAIN[:5])
    assert {d.metric.label for d in one.differences} == {"exact_match", "chrf", "per"}
    assert {d.metric.label for d in one.differences} == {d.metric.label for d in other.differences}


def test_perplexities_with_different_tokenizers_are_not_compared(model, lowercasing):
    """Even if the numbers of tokens are equal."""
    with pytest.raises(ConfigError, match=r"perplexity counts tokens, .* tokenize the targets differently"):
        model.compare(lowercasing, PLAIN[:5], metrics=["exact_match", "perplexity"])
