"""External data types work from reader to metric, without changes to the package."""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom.data.prepare import PreparedCorpus
from seqloom.errors import ConfigError, InputError, SentenceError

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
    """Random walks: the source gives the direction, the context the step sizes; the target is the path."""
    rng, examples = random.Random(seed), []
    for _ in range(count):
        word = rng.choice(["up", "down"])
        context = [[round(rng.uniform(0, 1), 3)] for _ in range(rng.choice(LENGTHS))]
        path = np.cumsum(context) * (1 if word == "up" else -1)
        target = [[float(position), float(step)] for position, (step,) in zip(path, context, strict=True)]
        examples.append({"source": word, "context": context, "target": target})
    return examples


def settings(given: dict[str, object]) -> list[str]:
    return [word for path, value in given.items() for word in ("--set", f"{path}={json.dumps(value)}")]


WALK = {
    "data.source_tokenizer": "character",
    "data.fields": {
        "target": {"name": "vectors", "width": 2},
        "context": {"name": "vectors", "width": 1, "end": True},
    },
    "model.inputs": {"context": {"embedder": {"name": "vectors", "embedding_size": 8}, "joins": "target"}},
    "model.output": "squared_error",
    "model.hidden_size": 24,
    "model.dropout": 0.0,
    "train.updates": 300,
    "train.evaluate_every": 100,
    "train.batch_sentences": 32,
    "train.optimizer.lr": 0.01,
}


@pytest.fixture(scope="module")
def walked(tmp_path_factory) -> Path:
    """Two runs from words and vectors to vectors, through the command line; one is stopped and resumed."""
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


def test_vectors_are_learned_and_evaluated_with_the_metric_of_their_field(walked):
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


def test_command_line_equals_python_api(walked):
    examples = walks(40, 3)
    model = seqloom.load(walked / "whole")
    requests = "".join(json.dumps({"source": e["source"], "context": e["context"]}) + "\n" for e in examples)
    ran = run_seqloom("predict", walked / "whole", "--import", VECTORS, "--format", "jsonl", stdin=requests)
    written = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [len(one) for one in written] == [len(e["target"]) for e in examples]
    np.testing.assert_allclose(np.concatenate(written), np.concatenate(model.predict(examples)), atol=1e-5)
    ran = run_seqloom("evaluate", walked / "whole", "--data", walked / "test.jsonl", "--import", VECTORS, "--json")
    value = json.loads(ran.stdout)["metrics"]["rmse"]["value"]
    assert value == pytest.approx(rmse(written, examples), rel=1e-4)


def test_resumed_run_has_the_same_weights(walked):
    whole, parts = ((walked / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_fitted_fields_are_saved_as_json_and_safetensors(walked):
    names = {path.name for path in (walked / "whole").iterdir()}
    assert {"fields.json", "fields.safetensors"} <= names
    fields = seqloom.load(walked / "whole").fields
    steps = np.concatenate([walk["target"] for walk in walks(600, 1)])
    np.testing.assert_allclose(fields["target"].mean, steps.mean(0), atol=1e-4)
    prepared = PreparedCorpus.open(walked / "whole" / "data")
    assert prepared.fields.same(fields)
    batch = prepared.train.batch([5, 0])
    assert set(batch.fields) == {"source", "target", "context"}
    for row, number in enumerate((5, 0)):
        real = batch["target"].values[row, batch["target"].mask[row]].numpy()
        np.testing.assert_allclose(fields["target"].decode(real, {}), walks(600, 1)[number]["target"], atol=1e-5)


def test_prediction_does_not_depend_on_the_batch(walked):
    model, examples = seqloom.load(walked / "whole"), walks(5, 4)
    for example, together in zip(examples, model.predict(examples), strict=True):
        np.testing.assert_allclose(model.predict(example), together, atol=1e-5)


def test_length_limit_and_truncation(walked):
    model = seqloom.load(walked / "whole")
    example = {"source": "up", "context": [[0.5]] * 6}
    (prediction,) = model.generate(example, max_length=3)
    assert (len(prediction.text), prediction.finished) == (3, False)
    (prediction,) = model.generate(example)
    assert (len(prediction.text), prediction.finished) == (6, True)
    assert prediction.to_json()["log_prob"] is None


def test_operations_on_tokens_are_rejected(walked):
    model, example = seqloom.load(walked / "whole"), walks(1, 5)[0]
    with pytest.raises(ConfigError, match="generates values, not tokens, so no search applies"):
        model.predict(example, search="beam")
    with pytest.raises(ConfigError, match="is not tokens: there is nothing to score"):
        model.score([example], [example["target"]])
    with pytest.raises(ConfigError, match="generate values instead of tokens can't be ensembled"):
        seqloom.load([walked / "whole", walked / "parts"])
    with pytest.raises(ConfigError, match="without a search"):
        model.trace(example)
    with pytest.raises(ConfigError, match="constraints need a text target"):
        model.predict(example, prefix="a")


def test_missing_or_invalid_input_is_reported(walked):
    model, good = seqloom.load(walked / "whole"), walks(1, 5)[0]
    with pytest.raises(
        SentenceError, match=r"sentence 1: it has no 'context', which the model requires, only source"
    ):
        model.predict([good, {"source": "up"}])
    with pytest.raises(SentenceError, match="sentence 2: its context: 'far' is not a list of vectors"):
        model.predict([good, {"source": " "}, {**good, "context": "far"}])
    with pytest.raises(SentenceError, match="sentence 0: its context is empty"):
        model.predict([{**good, "context": []}])
    requests = json.dumps({"source": "up", "context": [[1.0]]}) + "\n" + json.dumps({"source": "up"}) + "\n"
    ran = run_seqloom("predict", walked / "whole", "--import", VECTORS, "--format", "jsonl", stdin=requests, code=2)
    assert "standard input, line 2: it has no 'context'" in ran.stderr


def test_mismatched_fields_and_inputs_are_rejected_before_any_work(tmp_path):
    data = [("a", "b")] * 10
    for invalid, message in (
        ({"data.fields.tags": "text"}, r"the model does not read data\.fields\.tags"),
        (
            {"model.inputs.tags": {"joins": "memory"}},
            r"model\.inputs\.tags reads an undefined field: add data\.fields\.tags",
        ),
        (
            {"data.fields.tags": "text", "model.inputs.tags": {"joins": "head"}},
            r"inputs\.tags=.* is invalid: write \{embedder",
        ),
        (
            {"data.fields.target": "vectors", "data.target_tokenizer": "byte"},
            r"data\.fields\.target both set the target tokenizer",
        ),
        (
            {"data.fields.target": "vectors", "data.share_vocabulary": True},
            r"share_vocabulary requires .* text fields",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            seqloom.fit(data, overrides=invalid, out=tmp_path / "run", quiet=True)
    tagged = {"data.fields.tags": "text", "model.inputs.tags": {"joins": "memory"}}
    with pytest.raises(InputError, match="example 0 of the training data has no 'tags', only source, target"):
        seqloom.fit(data, overrides=tagged, out=tmp_path / "run", quiet=True)
    good, bad = {"source": "a", "target": [[1.0, 2.0], [3.0, 5.0]]}, {"source": "a", "target": [[1.0]]}
    vectors = {"data.fields.target": {"name": "vectors", "width": 2}, "model.output": "squared_error"}
    with pytest.raises(InputError, match=r"dev data, example 1: its target: \[\[1.0\]\] is not a list of vectors"):
        seqloom.fit([good] * 5, dev=[good, bad], overrides=vectors, out=tmp_path / "run", quiet=True)


ENDINGS = {"SG": "", "PL": "en", "DIM": "ki"}
WORDS = [a + b + c + d for a in "bdfgkl" for b in "aeiou" for c in "mnprst" for d in "aeiou"]
FORMS = {
    "data.source_tokenizer": "character",
    "data.target_tokenizer": "character",
    "data.fields": {"tag": {"name": "text", "tokenizer": "whitespace"}},
    "model.hidden_size": 24,
    "model.dropout": 0.0,
    "train.updates": 500,
    "train.evaluate_every": 250,
    "train.batch_sentences": 32,
    "train.optimizer.lr": 0.01,
}


def forms(seed: int) -> list[tuple[str, str, str]]:
    """Triples of lemma, form and tag; the form depends on the tag."""
    words = random.Random(seed).sample(WORDS, len(WORDS))
    return [(word, word + ENDINGS[tag], tag) for word in words for tag in ENDINGS]


@pytest.mark.parametrize("joins", ["memory", pytest.param("source", marks=pytest.mark.slow)])
def test_additional_tag_input_determines_the_form(joins, tmp_path):
    train, test = forms(1)[:2400], forms(1)[2400:]
    for name, some in (("train", train), ("dev", test[:60]), ("test", test[60:])):
        (tmp_path / f"{name}.tsv").write_text("".join("\t".join(columns) + "\n" for columns in some))
    columns = ("--columns", "{source: 0, target: 1, tag: 2}")
    embedder = {"name": "tokens", "embedding_size": 24}
    run_seqloom(
        *("train", "--train", tmp_path / "train.tsv", "--dev", tmp_path / "dev.tsv", "--out", tmp_path / "run"),
        *columns,
        *settings({**FORMS, "model.inputs": {"tag": {"embedder": embedder, "joins": joins}}}),
    )
    model = seqloom.load(tmp_path / "run")
    lemma = "bama"
    predictions = model.predict([{"source": lemma, "tag": tag} for tag in ENDINGS])
    assert predictions == [lemma + ending for ending in ENDINGS.values()]
    ran = run_seqloom(
        *("evaluate", tmp_path / "run", "--data", tmp_path / "test.tsv", "--metric", "exact_match", "--json"),
        *columns,
    )
    assert json.loads(ran.stdout)["metrics"]["exact_match"]["value"] > 90
    request = {"source": lemma, "tag": "PL", "prefix": lemma}
    ran = run_seqloom(
        "predict", tmp_path / "run", "--format", "jsonl", "--n-best", 2, stdin=json.dumps(request) + "\n"
    )
    assert ran.stdout.splitlines()[0].split(" ||| ")[1] == lemma + "en"
    scored = run_seqloom("score", tmp_path / "run", "--data", tmp_path / "test.tsv", *columns)
    assert len(scored.stdout.splitlines()) == len(test) - 60
    with pytest.raises(SentenceError, match="it has no 'tag'"):
        model.predict(lemma)
    (expected,) = model.score([{"source": lemma, "tag": "PL"}], [lemma + "en"])
    (unexpected,) = model.score([{"source": lemma, "tag": "SG"}], [lemma + "en"])
    assert expected.log_prob > unexpected.log_prob + 1


def test_fields_of_a_prepared_corpus(tmp_path):
    lines = ["\t".join(columns) + "\n" for columns in forms(2)[:200]]
    (tmp_path / "forms.tsv").write_text("source\ttarget\ttag\n" + "".join(lines))
    data = {key: value for key, value in FORMS.items() if key.startswith("data.")}
    run_seqloom(
        *("prepare", "--train", tmp_path / "forms.tsv", "--header", "--out", tmp_path / "corpus", *settings(data))
    )
    rest = {key: value for key, value in FORMS.items() if key not in data} | {"train.updates": 2}
    given = ["train", "--train", tmp_path / "corpus", "--out", tmp_path / "run", *settings(rest)]
    assert "the model does not read data.fields.tag:" in run_seqloom(*given, code=2).stderr
    run_seqloom(*given, *settings({"model.inputs": {"tag": {"joins": "memory"}}}))
    assert isinstance(seqloom.load(tmp_path / "run").predict({"source": "bama", "tag": "PL"}), str)
