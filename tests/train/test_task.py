"""Training on a task: its examples, fields and metric, and options that override them."""

import json
import signal

import pytest

import seqloom
from seqloom.cli import app
from seqloom.config import make_config
from seqloom.data.prepare import PreparedCorpus
from seqloom.errors import ConfigError, UnknownNameError
from seqloom.registry import build
from seqloom.train.display import Display
from seqloom.train.folder import RunFolder
from seqloom.train.run import resume, train
from seqloom.train.task import task_examples

TASK = {"name": "reorder", "train": 60, "dev": 8, "test": 9, "words": 3}
QUICK = {"train": {"updates": 4, "evaluate_every": 2, "checkpoint_seconds": 1e-9}, "model": {"hidden_size": 8}}


def trained(out, display: Display | None = None) -> RunFolder:
    return train(make_config({"data": {"task": TASK}}, QUICK), out, display=display or Display())


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFolder:
    return trained(tmp_path_factory.mktemp("runs") / "reorder")


def test_task_sets_examples_fields_and_metric(run):
    config, task = run.read_config(), build("task", TASK)
    assert (config.data.task, config.data.source_tokenizer, config.data.target_tokenizer) == (
        TASK,
        "whitespace",
        "whitespace",
    )
    assert config.train.validation_metric == "exact_match"
    prepared = PreparedCorpus.open(run.data)
    assert [(example.source, example.target) for example in prepared.dev.examples()] == task.dev
    assert len(prepared.train) == 60


def test_set_options_override_task(tmp_path):
    (tmp_path / "dev.tsv").write_text("baro\tbaro\n")
    config = make_config(
        {
            "data": {"task": TASK, "target_tokenizer": "character", "dev": [str(tmp_path / "dev.tsv")]},
            "train": {"validation_metric": "per"},
        }
    )
    _, dev = task_examples(config)
    assert dev is None
    assert (config.data.source_tokenizer, config.data.target_tokenizer, config.train.validation_metric) == (
        "whitespace",
        "character",
        "per",
    )
    assert train(make_config(config.model_dump(), QUICK), tmp_path / "run", display=Display()).finished


def test_interrupted_task_run_resumes_bit_identically(run, tmp_path):
    class Stops(Display):
        def validated(self, validated):
            signal.raise_signal(signal.SIGINT)

    stopped = trained(tmp_path / "run", display=Stops())
    assert not stopped.finished
    resumed = resume(stopped.path, {}, display=Display())
    assert resumed.finished
    assert resumed.weights.read_bytes() == run.weights.read_bytes()
    assert resumed.read_config() == run.read_config()


def test_train_and_evaluate_commands(tmp_path, capsys):
    task = "{name: reverse, train: 60, dev: 8, test: 9}"
    quick = [word for path in ("updates=2", "evaluate_every=2") for word in ("--set", f"train.{path}")]
    out = str(tmp_path / "run")
    app(args=["train", "--task", task, "--out", out, "--set", "model.hidden_size=8", *quick], standalone_mode=False)
    capsys.readouterr()
    app(args=["evaluate", out, "--task", task, "--bootstrap", "0", "--json"], standalone_mode=False)
    report = json.loads(capsys.readouterr().out)
    assert report["examples"] == 9
    assert next(iter(report["metrics"])) == "exact_match"
    assert """--task '{"name": "reverse", "train": 60""" in (tmp_path / "run" / "README.md").read_text(
        encoding="utf-8"
    )


def test_fit_and_evaluate_from_python(tmp_path):
    settings = {"train.updates": 2, "train.evaluate_every": 2}
    model = seqloom.fit(task=TASK, hidden_size=8, overrides=settings, out=tmp_path / "run", quiet=True)
    report, pairs = model.evaluate(task=TASK, bootstrap=0).to_json(), build("task", TASK).test
    metrics = list(report["metrics"])
    assert metrics[0] == "exact_match"
    assert report == model.evaluate(pairs, metrics=metrics, bootstrap=0).to_json()
    assert model.compare(model, task=TASK)
    with pytest.raises(ConfigError, match="either data or task"):
        model.evaluate()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"data": {"task": "revers"}}, UnknownNameError, "did you mean 'reverse'"),
        ({"data": {"task": {"name": "reverse", "longst": 3}}}, UnknownNameError, "did you mean 'longest'"),
        (
            {"data": {"task": "reverse", "train": ["x.tsv"]}},
            ConfigError,
            "data.task and data.train can't both be set",
        ),
        ({"data": {"task": "reverse", "columns": [1, 0]}}, ConfigError, "remove data.columns"),
    ],
)
def test_invalid_options_are_rejected(settings, error, message, tmp_path):
    with pytest.raises(error) as raised:
        train(make_config(settings), tmp_path / "run", display=Display())
    assert message in str(raised.value)
    assert not (tmp_path / "run" / "data").exists()


def test_pairs_and_task_are_mutually_exclusive():
    with pytest.raises(ConfigError, match="can't both be given"):
        seqloom.fit([("a", "b")], task="reverse", quiet=True)


def test_files_and_task_override_each_other():
    """Given on top of a configuration of the other kind, such as that of a run."""
    files = {"train": ["a.tsv"], "dev": ["b.tsv"], "columns": [1, 0], "max_length": 9}
    made = make_config({"data": files}, {"data": {"task": "copy"}}).data
    assert (made.task, made.train, made.dev, made.columns, made.max_length) == ("copy", None, None, None, 9)
    made = make_config({"data": {"task": "copy"}}, {"data": {"train": ["a.tsv"]}}).data
    assert (made.task, made.train) == (None, ["a.tsv"])
