"""The commands, from training files to evaluation."""

import io
import json
import shutil
import subprocess
import sys

import pytest
import torch
from ruamel.yaml import YAML

from seqloom import load, preset_names
from seqloom.cli import app
from seqloom.cli.files import expand_file_args
from seqloom.config import Config, DataConfig, TrainConfig, make_config
from seqloom.errors import SeqloomError
from seqloom.train.folder import RunFolder
from tests.train.small import PAIRS


def run(*arguments: str, capsys) -> str:
    app(args=expand_file_args(arguments), standalone_mode=False)
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for side in ("source", "target"):
        text = "".join(f"{getattr(e, side)}\n" for e in PAIRS)
        (folder / f"train.{side}").write_text(text, encoding="utf-8")
    (folder / "test.tsv").write_text("".join(f"{e.source}\t{e.target}\n" for e in PAIRS[:30]), encoding="utf-8")
    return folder


QUICK = ("--set", "train.updates=20", "--set", "model.hidden_size=16", "--set", "train.evaluate_every=10")


@pytest.fixture(scope="module")
def trained(files):
    torch.set_num_threads(1)
    out = files / "run"
    app(
        args=expand_file_args(["train", "--train", f"{files}/train.{{source,target}}", "--out", str(out), *QUICK]),
        standalone_mode=False,
    )
    return out


def test_train_writes_run_directory(trained):
    assert (trained / "model.safetensors").exists()
    assert (trained / "README.md").read_text(encoding="utf-8").startswith("# run\n")
    resolved = YAML(typ="safe").load((trained / "config.yaml").read_text(encoding="utf-8"))
    assert resolved["model"]["encoder"]["hidden_size"] == 16
    assert resolved["train"]["updates"] == 20
    assert RunFolder(trained).read_config().model == resolved["model"]


def test_configuration_file_gives_the_same_weights(files, trained, tmp_path, capsys):
    config = tmp_path / "config.yaml"
    paths = [f"{files}/train.source", f"{files}/train.target"]
    train = {"updates": 20, "evaluate_every": 10}
    config.write_text(
        json.dumps({"data": {"train": paths}, "model": {"hidden_size": 16}, "train": train}), encoding="utf-8"
    )
    run("train", str(config), "--out", str(tmp_path / "run"), capsys=capsys)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_prepared_corpus_gives_the_same_weights(files, trained, tmp_path, capsys):
    both = f"{files}/train.{{source,target}}"
    run("prepare", "--train", both, "--out", str(tmp_path / "corpus"), capsys=capsys)
    run("train", "--train", str(tmp_path / "corpus"), "--out", str(tmp_path / "run"), *QUICK, capsys=capsys)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert not (tmp_path / "run" / "data").exists()


def test_predict_prints_one_line_per_line(trained, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"afk\n\nbgl\n")))
    lines = run("predict", str(trained), capsys=capsys).split("\n")
    assert len(lines) == 4
    assert lines[1] == ""
    assert lines[3] == ""


def test_predict_prints_a_line_before_the_next_arrives(trained):
    """In a pipe whose other end waits for every output line."""
    command = [sys.executable, "-m", "seqloom", "translate", str(trained)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for line in ("afk\n", "\n", "bgl\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith("\n")
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_evaluate_prints_a_table_or_json(trained, files, capsys):
    table = run("evaluate", str(trained), "--data", f"{files}/test.tsv", capsys=capsys)
    assert "exact_match" in table
    assert "perplexity" in table
    as_json = run("evaluate", str(trained), "--data", f"{files}/test.tsv", "--json", "--metric", "per", capsys=capsys)
    assert "per" in json.dumps(json.loads(as_json))
    compared = run(
        "evaluate",
        str(trained),
        "--against",
        str(trained),
        "--data",
        f"{files}/test.tsv",
        "--metric",
        "exact_match",
        capsys=capsys,
    )
    assert "exact_match" in compared


@pytest.mark.parametrize("preset", [None, *preset_names()])
def test_printed_configuration_is_complete_and_valid(preset, capsys):
    if preset == "attention-lm":
        pytest.skip("a language model has no pairs to train on")
    printed = run("config", *(() if preset is None else ("--preset", preset)), capsys=capsys)
    config = make_config(YAML(typ="safe").load(printed))
    assert config.model["encoder"]["hidden_size"] == 256
    assert config.train.optimizer["lr"] > 0
    comments = [line for line in printed.splitlines() if "#" in line]
    assert len(comments) > 60
    loaded = YAML(typ="safe").load(printed)
    assert set(loaded) == set(Config.model_fields)
    assert set(loaded["data"]) == set(DataConfig.model_fields)
    assert set(loaded["train"]) == set(TrainConfig.model_fields)
    assert all(len(line) <= 118 for line in printed.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --out r", "there is nothing to train on"),
        ("train --train none.tsv --out r", "none.tsv"),
        ("train --train x.tsv", "give an output directory"),
        ("train --resume r --preset luong", "--resume continues a run with its own configuration"),
        ("train --resume none", "is not a run"),
        ("train --train x.tsv --out r --set train.epoch=1", "did you mean 'epochs'"),
        ("evaluate none --data x.tsv", "is not a run"),
        ("predict none", "is not a run"),
        ("train --train - --dev - --out r", "not both"),
        ("train --train - --dev none.tsv --out r", "none.tsv not found"),
        ("prepare --train - --dev - --out r", "not both"),
        ("prepare --out r", "give the training data"),
        ("config --preset luon", "did you mean 'luong'"),
    ],
)
def test_invalid_arguments_are_errors_before_input_is_read(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n" * 9)))
    with pytest.raises(SeqloomError) as raised:
        run(*arguments.split(), capsys=capsys)
    assert message in str(raised.value)
    assert sys.stdin.buffer.tell() == 0, "standard input must not be read"
    assert not list(tmp_path.iterdir())


def test_search_options_without_name_are_for_beam_search():
    assert make_config({"search": {"beam_size": 10}}).search == {"name": "beam", "beam_size": 10}
    assert make_config({"search": {"name": "greedy"}}).search == {"name": "greedy"}


def test_unknown_search_is_an_error_before_training(files, tmp_path, capsys):
    with pytest.raises(SeqloomError, match="did you mean 'beam'"):
        run(
            "train",
            "--train",
            f"{files}/test.tsv",
            "--out",
            str(tmp_path / "r"),
            "--set",
            "search=beem",
            capsys=capsys,
        )
    assert not (tmp_path / "r").exists()


def test_resume_without_checkpoint_changes_nothing(trained, tmp_path, capsys):
    """The run must not be trained again from the start."""
    copy = tmp_path / "run"
    shutil.copytree(trained, copy)
    shutil.rmtree(copy / "checkpoints")
    before = {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    with pytest.raises(SeqloomError, match="is missing, so the run can't be resumed"):
        run("train", "--resume", str(copy), "--set", "train.updates=40", capsys=capsys)
    assert before == {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}


def test_resume_after_change_of_prepared_vocabulary_is_an_error(files, tmp_path, capsys):
    """The ids of the new tokens would be interpreted as ids of the old ones."""
    corpus, out = str(tmp_path / "corpus"), str(tmp_path / "run")
    run("prepare", "--train", f"{files}/test.tsv", "--out", corpus, capsys=capsys)
    run("train", "--train", corpus, "--out", out, *QUICK, capsys=capsys)
    shutil.rmtree(corpus)
    upper = tmp_path / "upper.tsv"
    upper.write_text((files / "test.tsv").read_text(encoding="utf-8").upper(), encoding="utf-8")
    run("prepare", "--train", str(upper), "--out", corpus, capsys=capsys)
    with pytest.raises(SeqloomError, match=r"has changed since this run started \(different tokens"):
        run("train", "--resume", out, "--set", "train.updates=40", capsys=capsys)


@pytest.mark.parametrize("max_length", [2, 250])
def test_resume_after_change_of_prepared_pairs_is_an_error(max_length, files, tmp_path, capsys):
    """The batches would differ. Preparing the same pairs again is allowed."""
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\ta\n" + (files / "test.tsv").read_text(encoding="utf-8"), encoding="utf-8")
    corpus, out = str(tmp_path / "corpus"), str(tmp_path / "run")
    prepare = ("prepare", "--train", str(pairs), "--out", corpus, "--dev")
    run(*prepare, str(pairs), capsys=capsys)
    run("train", "--train", corpus, "--out", out, *QUICK, capsys=capsys)
    run(*prepare, str(pairs), capsys=capsys)
    run("train", "--resume", out, "--set", "train.updates=21", capsys=capsys)
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    dev = pairs if max_length == 2 else files / "test.tsv"
    run(*prepare, str(dev), "--set", f"data.max_length={max_length}", capsys=capsys)
    with pytest.raises(SeqloomError, match=r"has changed since this run started \(different pairs"):
        run("train", "--resume", out, "--set", "train.updates=40", capsys=capsys)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dev", "{files}/test.tsv"], "remove --dev"),
        *(
            (["--set", f"data.{field}={value}"], f"remove data.{field}")
            for field, value in [
                ("source_tokenizer", "byte"),
                ("target_tokenizer", "byte"),
                ("share_vocabulary", "true"),
                ("max_length", "20"),
                ("on_empty", "error"),
                ("format", "tsv"),
                ("columns", "[1, 0]"),
                ("header", "true"),
            ]
        ),
    ],
)
def test_options_that_conflict_with_prepared_corpus_are_errors(options, message, files, tmp_path, capsys):
    corpus = str(tmp_path / "corpus")
    run("prepare", "--train", f"{files}/test.tsv", "--out", corpus, capsys=capsys)
    given = [word.format(files=files) for word in options]
    with pytest.raises(SeqloomError, match=message):
        run("train", "--train", corpus, "--out", str(tmp_path / "run"), *QUICK, *given, capsys=capsys)


def test_run_on_prepared_corpus_records_its_options_and_is_reproducible(files, tmp_path, capsys):
    corpus = str(tmp_path / "corpus")
    one = ("--set", "data.share_vocabulary=true", "--set", "data.max_length=99")
    run("prepare", "--train", f"{files}/test.tsv", "--out", corpus, *one, capsys=capsys)
    run("train", "--train", corpus, "--out", str(tmp_path / "run"), *QUICK, capsys=capsys)
    config = tmp_path / "run" / "config.yaml"
    data = YAML(typ="safe").load(config.read_text(encoding="utf-8"))["data"]
    assert (data["train"], data["share_vocabulary"], data["max_length"]) == ([corpus], True, 99)
    run("train", str(config), "--out", str(tmp_path / "again"), capsys=capsys)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "again")]
    assert weights[0] == weights[1]


def test_corpus_of_an_earlier_attempt_is_not_reused(files, tmp_path, capsys):
    corpus, out = tmp_path / "corpus", tmp_path / "run"
    run("prepare", "--train", f"{files}/test.tsv", "--out", str(corpus), capsys=capsys)
    run("prepare", "--train", f"{files}/train.{{source,target}}", "--out", str(out / "data"), capsys=capsys)
    run("train", "--train", str(corpus), "--out", str(out), *QUICK, capsys=capsys)
    assert not (out / "data").exists()


def test_comparison_of_runs_with_different_tokenizers_omits_token_metrics(trained, files, tmp_path, capsys):
    other = ("--set", "data.target_tokenizer={name: bpe, min_frequency: 2, vocab_size: 40}")
    run("train", "--train", f"{files}/test.tsv", "--out", str(tmp_path / "r"), *QUICK, *other, capsys=capsys)
    text = run(
        "evaluate", str(trained), "--against", str(tmp_path / "r"), "--data", f"{files}/test.tsv", "--json",
        capsys=capsys,
    )  # fmt: skip
    found = json.loads(text)
    assert found["names"] == [str(trained), str(tmp_path / "r")]
    assert "exact_match" in text
    assert "token_accuracy" not in text


def test_comparison_reads_a_pipe_once(trained, files, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((files / "test.tsv").read_bytes())))
    text = run("evaluate", str(trained), "--against", str(trained), "--data", "-", "--json", capsys=capsys)
    assert json.loads(text)


def test_evaluate_reports_number_of_skipped_pairs(trained, tmp_path, capsys):
    (tmp_path / "t.txt").write_text("afk\tkfa\n\tkfa\nbgl\t\n", encoding="utf-8")
    app(
        args=expand_file_args(
            ["evaluate", str(trained), "--data", f"{tmp_path}/t.txt", "--format", "tsv", "--bootstrap", "0"]
        ),
        standalone_mode=False,
    )
    assert "seqloom: 2 pairs with an empty side were skipped" in capsys.readouterr().err


def test_whitespace_line_is_blank(trained, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(" \nafk\n\u3000\t\n".encode())))
    command = ("predict", str(trained), "--min-length", "1")
    blank, output, also_blank, end = run(*command, capsys=capsys).split("\n")
    assert (blank, also_blank, end) == ("", "", "")
    assert output


def test_preset_and_hidden_size_override_complete_configuration(trained, tmp_path, capsys):
    for number, printed in enumerate([run("config", capsys=capsys), (trained / "config.yaml").read_text()]):
        config, out = tmp_path / f"{number}.yaml", tmp_path / str(number)
        config.write_text(printed, encoding="utf-8")
        overrides = ("--preset", "transformer", "--set", "model.hidden_size=8")
        quick = ("--set", "train.updates=1", "--set", "train.schedule=constant")
        data = ("--train", str(trained.parent / "test.tsv"))
        run("train", str(config), *data, "--out", str(out), *overrides, *quick, capsys=capsys)
        model = YAML(typ="safe").load((out / "config.yaml").read_text(encoding="utf-8"))["model"]
        assert (model["decoder"]["name"], model["decoder"]["hidden_size"]) == ("transformer", 8)


def test_printed_configuration_has_given_updates(capsys):
    text = run("config", "--set", "train.updates=1234", capsys=capsys)
    assert YAML(typ="safe").load(text)["train"]["updates"] == 1234


@pytest.mark.parametrize(
    "files", [["train.{de,en}"], ["a: b", "#c", "12"], ["long/" * 40 + "de", "long/" * 40 + "en"]], ids=str
)
def test_printed_configuration_has_valid_lists(files, capsys):
    text = run("config", "--set", f"data.train={json.dumps(files)}", capsys=capsys)
    assert YAML(typ="safe").load(text)["data"]["train"] == files


def test_error_while_waiting_for_input_exits_cleanly(trained):
    """A thread is still waiting for standard input at that moment."""
    command = [sys.executable, "-m", "seqloom", "predict", str(trained), "--format", "jsonl"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdin.write('{"source": "afk", "prefix": "€"}\n')
        process.stdin.flush()
        assert process.wait(timeout=60) == 2
        assert "Fatal" not in process.stderr.read()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.optimizer=adan", "did you mean"),
        ("train.schedule=cosin", "did you mean"),
        ("train.validation_metric=blue", "did you mean"),
        ("train.optimizer.weight_decy=1", "did you mean 'weight_decay'"),
        ("train.schedule.warmpu=1", "did you mean 'warmup'"),
        ("train.validation_metric.lowercase=true", "has no part name"),
        ("train.scheduled_sampling.feed=sample", "has no part name"),
    ],
)
def test_invalid_training_parts_are_errors_before_data_is_read(setting, message, tmp_path, capsys):
    with pytest.raises(SeqloomError, match=message):
        run("train", "--train", "nowhere.tsv", "--out", str(tmp_path / "r"), "--set", setting, capsys=capsys)


def test_readme_lists_training_files(trained, files):
    text = (trained / "README.md").read_text(encoding="utf-8")
    assert f"- train: {files}/train.source, {files}/train.target" in text


def test_evaluate_applies_constraints(trained, files, capsys):
    """Values are strings, not YAML, and repeatable options accumulate."""
    command = (
        "evaluate",
        str(trained),
        "--data",
        f"{files}/test.tsv",
        "--metric",
        "chrf",
        "--bootstrap",
        "0",
        "--json",
    )
    words = [word for letter in "klmn" for word in ("--forbid", letter)]
    free, constrained = (
        json.loads(run(*command, *options, capsys=capsys))["metrics"]["chrf"]["value"] for options in ((), words)
    )
    expected = load(trained).evaluate(files / "test.tsv", metrics=["chrf"], bootstrap=0, forbid=list("klmn"))
    assert constrained == expected["chrf"].value
    assert constrained != free
