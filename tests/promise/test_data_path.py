"""The data path is open: kinds of data from outside the package go from reader to metric, with no edits elsewhere."""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom.data.prepare import Prepared
from seqloom.errors import InputError, OptionError, SentenceError

ROOT = Path(__file__).parents[2]
VECTORS = Path(__file__).parent / "data" / "vectors.py"
LENGTHS = range(2, 7)
OUTSIDE = ("data/vectors.py",)
pytestmark = pytest.mark.usefixtures("outside")


def run_seqloom(*arguments: object, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seqloom", *map(str, arguments)]
    ran = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == code, ran.stderr
    return ran


def walks(count: int, seed: int) -> list[dict[str, object]]:
    """A word says in which direction to go, the context how far at each step; the target is where that leads."""
    drawn, found = random.Random(seed), []
    for _ in range(count):
        word = drawn.choice(["up", "down"])
        context = [[round(drawn.uniform(0, 1), 3)] for _ in range(drawn.choice(LENGTHS))]
        way = np.cumsum(context) * (1 if word == "up" else -1)
        target = [[float(place), float(step)] for place, (step,) in zip(way, context, strict=True)]
        found.append({"source": word, "context": context, "target": target})
    return found


def settings(given: dict[str, object]) -> list[str]:
    return [word for path, value in given.items() for word in ("--set", f"{path}={json.dumps(value)}")]


WALK = {
    "data.source": "character",
    "data.fields": {
        "target": {"name": "vectors", "width": 2},
        "context": {"name": "vectors", "width": 1, "end": True},
    },
    "model.inputs": {"context": {"embedder": {"name": "vectors", "size": 8}, "joins": "target"}},
    "model.output": "squared_error",
    "model.size": 24,
    "model.dropout": 0.0,
    "train.updates": 300,
    "train.evaluate_every": 100,
    "train.batch_sentences": 32,
    "train.optimiser.rate": 0.01,
}


@pytest.fixture(scope="module")
def walked(tmp_path_factory) -> Path:
    """A run from words and vectors to vectors, trained by the command line in two parts."""
    folder = tmp_path_factory.mktemp("walks")
    for name, count, seed in (("train", 600, 1), ("dev", 40, 2), ("test", 40, 3)):
        lines = [json.dumps(walk) + "\n" for walk in walks(count, seed)]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    for out, updates in (("whole", 300), ("parts", 200)):
        run_seqloom(
            *("train", "--train", folder / "train.jsonl", "--dev", folder / "dev.jsonl", "--out", folder / out),
            *("--import", VECTORS, *settings({**WALK, "train.schedule": "constant", "train.updates": updates})),
        )
    run_seqloom("train", "--resume", folder / "parts", "--import", VECTORS, "--set", "train.updates=300")
    return folder


def rmse(predicted: list[list[list[float]]], examples: list[dict[str, object]]) -> float:
    squares = [np.square(np.array(p) - np.array(e["target"])) for p, e in zip(predicted, examples, strict=True)]
    return float(np.sqrt(np.concatenate(squares).mean()))


def test_vectors_are_learned_and_judged_by_the_metric_of_their_field(walked):
    records = [json.loads(line) for line in (walked / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert all(record["dev"].keys() == {"rmse"} for record in records if "dev" in record)
    examples = walks(40, 3)
    spread = float(np.concatenate([e["target"] for e in examples]).std())
    model = seqloom.load(walked / "whole")
    predicted = model.predict(examples)
    assert [len(p) for p in predicted] == [len(e["target"]) for e in examples]
    assert rmse(predicted, examples) < 0.25 * spread
    report = model.evaluate(str(walked / "test.jsonl"), bootstrap=0)
    assert [result.metric.name for result in report.results] == ["rmse"]
    assert report["rmse"].value == pytest.approx(rmse(predicted, examples), rel=1e-5)


def test_the_command_line_predicts_and_evaluates_the_same(walked):
    examples = walks(40, 3)
    model = seqloom.load(walked / "whole")
    asked = "".join(json.dumps({"source": e["source"], "context": e["context"]}) + "\n" for e in examples)
    ran = run_seqloom("predict", walked / "whole", "--import", VECTORS, "--format", "jsonl", stdin=asked)
    written = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [len(one) for one in written] == [len(e["target"]) for e in examples]
    np.testing.assert_allclose(np.concatenate(written), np.concatenate(model.predict(examples)), atol=1e-5)
    ran = run_seqloom("evaluate", walked / "whole", "--data", walked / "test.jsonl", "--import", VECTORS, "--json")
    value = json.loads(ran.stdout)["metrics"]["rmse"]["value"]
    assert value == pytest.approx(rmse(written, examples), rel=1e-4)


def test_a_run_that_is_resumed_has_the_same_weights(walked):
    whole, parts = ((walked / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_what_fields_learned_is_kept_without_pickle(walked):
    names = {path.name for path in (walked / "whole").iterdir()}
    assert {"fields.json", "fields.safetensors"} <= names
    fields = seqloom.load(walked / "whole").fields
    steps = np.concatenate([walk["target"] for walk in walks(600, 1)])
    np.testing.assert_allclose(fields["target"].mean, steps.mean(0), atol=1e-4)
    prepared = Prepared.open(walked / "whole" / "data")
    assert prepared.fields.same(fields)
    batch = prepared.train.batch([5, 0])
    assert set(batch.fields) == {"source", "target", "context"}
    for row, number in enumerate((5, 0)):
        real = batch["target"].values[row, batch["target"].mask[row]].numpy()
        np.testing.assert_allclose(fields["target"].decode(real, {}), walks(600, 1)[number]["target"], atol=1e-5)


def test_each_example_alone_is_predicted_as_among_others(walked):
    model, examples = seqloom.load(walked / "whole"), walks(5, 4)
    for example, together in zip(examples, model.predict(examples), strict=True):
        np.testing.assert_allclose(model.predict(example), together, atol=1e-5)


def test_lengths_are_limited_and_truncation_is_seen(walked):
    model = seqloom.load(walked / "whole")
    example = {"source": "up", "context": [[0.5]] * 6}
    (answer,) = model.answers(example, max_length=3)
    assert (len(answer.text), answer.finished) == (3, False)
    (answer,) = model.answers(example)
    assert (len(answer.text), answer.finished) == (6, True)
    assert answer.to_json()["log_prob"] is None


def test_what_is_about_tokens_is_refused(walked):
    model, example = seqloom.load(walked / "whole"), walks(1, 5)[0]
    with pytest.raises(OptionError, match="not tokens: there is nothing to search"):
        model.predict(example, search="beam")
    with pytest.raises(OptionError, match="not tokens: there is nothing to score"):
        model.score([example], [example["target"]])
    with pytest.raises(OptionError, match="an ensemble averages probabilities of tokens"):
        seqloom.load([walked / "whole", walked / "parts"])
    with pytest.raises(OptionError, match="no search to trace"):
        model.trace(example)
    with pytest.raises(OptionError, match="constraints are about text"):
        model.predict(example, prefix="a")


def test_a_missing_or_wrong_input_is_named(walked):
    model, good = seqloom.load(walked / "whole"), walks(1, 5)[0]
    with pytest.raises(
        SentenceError, match=r"sentence 1: it has no 'context', which this model reads; it has source"
    ):
        model.predict([good, {"source": "up"}])
    with pytest.raises(SentenceError, match="sentence 2: its context: 'far' is no list of vectors"):
        model.predict([good, {"source": " "}, {**good, "context": "far"}])
    with pytest.raises(SentenceError, match="sentence 0: its context is empty"):
        model.predict([{**good, "context": []}])
    asked = json.dumps({"source": "up", "context": [[1.0]]}) + "\n" + json.dumps({"source": "up"}) + "\n"
    ran = run_seqloom("predict", walked / "whole", "--import", VECTORS, "--format", "jsonl", stdin=asked, code=2)
    assert "standard input, line 2: it has no 'context'" in ran.stderr


def test_fields_and_inputs_that_do_not_match_are_refused_before_any_work(tmp_path):
    data = [("a", "b")] * 10
    for wrong, said in (
        ({"data.fields.tags": "text"}, r"data\.fields\.tags is read by nothing"),
        ({"model.inputs.tags": {"joins": "memory"}}, r"model\.inputs\.tags reads a field that is not there"),
        ({"data.fields.tags": "text", "model.inputs.tags": {"joins": "head"}}, r"inputs\.tags is \{embedder"),
        ({"data.fields.target": "vectors", "data.target": "byte"}, r"data\.fields\.target sets it too"),
        ({"data.fields.target": "vectors", "data.shared": True}, r"data\.shared is for .* both text"),
    ):
        with pytest.raises(OptionError, match=said):
            seqloom.fit(data, settings=wrong, out=tmp_path / "run", quiet=True)
    tagged = {"data.fields.tags": "text", "model.inputs.tags": {"joins": "memory"}}
    with pytest.raises(InputError, match="example 0 of the training data has no 'tags', only source, target"):
        seqloom.fit(data, settings=tagged, out=tmp_path / "run", quiet=True)
    good, bad = {"source": "a", "target": [[1.0, 2.0], [3.0, 5.0]]}, {"source": "a", "target": [[1.0]]}
    vectors = {"data.fields.target": {"name": "vectors", "width": 2}, "model.output": "squared_error"}
    with pytest.raises(InputError, match=r"the dev data, example 1: its target: \[\[1.0\]\] is no list of vectors"):
        seqloom.fit([good] * 5, dev=[good, bad], settings=vectors, out=tmp_path / "run", quiet=True)


ENDINGS = {"SG": "", "PL": "en", "DIM": "ki"}
WORDS = [a + b + c + d for a in "bdfgkl" for b in "aeiou" for c in "mnprst" for d in "aeiou"]
FORMS = {
    "data.source": "character",
    "data.target": "character",
    "data.fields": {"tag": {"name": "text", "tokenizer": "symbols"}},
    "model.size": 24,
    "model.dropout": 0.0,
    "train.updates": 500,
    "train.evaluate_every": 250,
    "train.batch_sentences": 32,
    "train.optimiser.rate": 0.01,
}


def forms(seed: int) -> list[tuple[str, str, str]]:
    """Lemma, form and tag: the form is known only with the tag."""
    drawn = random.Random(seed)
    words = drawn.sample(WORDS, len(WORDS))
    return [(word, word + ENDINGS[tag], tag) for word in words for tag in ENDINGS]


@pytest.mark.parametrize("joins", ["memory", "source"])
def test_a_tag_beside_the_lemma_decides_the_form(joins, tmp_path):
    train, test = forms(1)[:2400], forms(1)[2400:]
    for name, some in (("train", train), ("dev", test[:60]), ("test", test[60:])):
        (tmp_path / f"{name}.tsv").write_text("".join("\t".join(columns) + "\n" for columns in some))
    columns = ("--columns", "{source: 0, target: 1, tag: 2}")
    embedder = {"name": "tokens", "size": 24}
    run_seqloom(
        *("train", "--train", tmp_path / "train.tsv", "--dev", tmp_path / "dev.tsv", "--out", tmp_path / "run"),
        *columns,
        *settings({**FORMS, "model.inputs": {"tag": {"embedder": embedder, "joins": joins}}}),
    )
    model = seqloom.load(tmp_path / "run")
    lemma = "bama"
    answers = model.predict([{"source": lemma, "tag": tag} for tag in ENDINGS])
    assert answers == [lemma + ending for ending in ENDINGS.values()]
    ran = run_seqloom(
        *("evaluate", tmp_path / "run", "--data", tmp_path / "test.tsv", "--metric", "exact", "--json"), *columns
    )
    assert json.loads(ran.stdout)["metrics"]["exact"]["value"] > 90
    asked = {"source": lemma, "tag": "PL", "prefix": lemma}
    ran = run_seqloom("predict", tmp_path / "run", "--format", "jsonl", "--n-best", 2, stdin=json.dumps(asked) + "\n")
    assert ran.stdout.splitlines()[0].split(" ||| ")[1] == lemma + "en"
    scored = run_seqloom("score", tmp_path / "run", "--data", tmp_path / "test.tsv", *columns)
    assert len(scored.stdout.splitlines()) == len(test) - 60
    with pytest.raises(SentenceError, match="it has no 'tag'"):
        model.predict(lemma)
    (sure,) = model.score([{"source": lemma, "tag": "PL"}], [lemma + "en"])
    (unsure,) = model.score([{"source": lemma, "tag": "SG"}], [lemma + "en"])
    assert sure.log_prob > unsure.log_prob + 1


def test_a_prepared_corpus_knows_its_fields(tmp_path):
    lines = ["\t".join(columns) + "\n" for columns in forms(2)[:200]]
    (tmp_path / "forms.tsv").write_text("source\ttarget\ttag\n" + "".join(lines))
    data = {key: value for key, value in FORMS.items() if key.startswith("data.")}
    run_seqloom(
        *("prepare", "--train", tmp_path / "forms.tsv", "--header", "--out", tmp_path / "corpus", *settings(data))
    )
    rest = {key: value for key, value in FORMS.items() if key not in data} | {"train.updates": 2}
    given = ["train", "--train", tmp_path / "corpus", "--out", tmp_path / "run", *settings(rest)]
    assert "data.fields.tag is read by nothing" in run_seqloom(*given, code=2).stderr
    run_seqloom(*given, *settings({"model.inputs": {"tag": {"joins": "memory"}}}))
    assert isinstance(seqloom.load(tmp_path / "run").predict({"source": "bama", "tag": "PL"}), str)
