"""Long targets: the maximum length comes from the training data, and outputs that it truncates are counted."""

import io
import json

import pytest

import seqloom
from seqloom.config import make_config, merge
from seqloom.data.examples import Example
from seqloom.train.display import PlainDisplay
from seqloom.train.folder import JsonlLog
from seqloom.train.run import train
from tests.train.small import BASE, WORDS, validations

LONG = [Example(word, word * 12) for word in WORDS]  # 36 tokens: more than 2·3 + 20


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    shown = io.StringIO()
    config = make_config(merge(BASE, {"train": {"updates": 4}}))
    out = tmp_path_factory.mktemp("long") / "run"
    folder = train(config, out, display=PlainDisplay(shown), train_examples=LONG[:80], dev_examples=LONG[80:])
    return folder, shown.getvalue()


def test_maximum_length_covers_training_targets(run):
    """A prefix longer than the maximum length is an error."""
    model = seqloom.load(run[0].path)
    assert model.predict(LONG[7].source, prefix=LONG[7].target).startswith(LONG[7].target)


def test_runs_without_recorded_lengths_use_default_limits(run, tmp_path):
    folder, _ = run
    model = seqloom.load(folder.path)
    assert model.fields.limits == {"source": 3, "target": 36, "ratio": 12.0}
    states = {side: field.tokenizer.to_json() for side, field in model.fields.items()}
    old = {"format": "seqloom tokenizers", "version": 1, **states}
    (tmp_path / "tokenizer.json").write_text(json.dumps(old), encoding="utf-8")
    assert seqloom.predictor.Predictor(model.network, type(model.fields).load(tmp_path)).training_lengths is None


def test_truncated_outputs_are_reported(run):
    """After four updates the model repeats itself endlessly."""
    folder, shown = run
    counts = {}
    for search in ("greedy", "beam"):
        predictions = seqloom.load(folder.path).generate([e.source for e in LONG[80:]], search=search)
        counts[search] = sum(best.truncated for best, *_ in predictions)
    assert counts["greedy"] > 0
    assert validations(folder)[-1]["truncated"] == counts["greedy"]
    assert f"{counts['greedy']} truncated" in shown
    assert [r["truncated"] for r in JsonlLog(folder.metrics) if "final" in r] == [counts["beam"]]
    assert f"{counts['beam']} of 20 outputs on the validation set were truncated" in shown


def test_evaluate_counts_truncated_outputs(run):
    model, sources = seqloom.load(run[0].path), [e.source for e in LONG[80:]]
    count = sum(best.truncated for best, *_ in model.generate(sources, max_length=1))
    assert count > 0
    report = model.evaluate(LONG[80:], max_length=1, metrics=["exact_match"], bootstrap=0)
    assert report.truncated == report.to_json()["truncated"] == count
    both = model.compare(model, LONG[80:], max_length=1, metrics=["exact_match"])
    assert both.to_json()["truncated"] == [count, count]


def test_prediction_does_not_change_training_mode(run, monkeypatch):
    """Another thread may be using the network."""
    model = seqloom.load(run[0].path)
    monkeypatch.setattr(type(model.network), "eval", lambda _: pytest.fail("switched by a request"))
    assert isinstance(model.predict("afk"), str)
