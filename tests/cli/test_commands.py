"""The commands, from files to evaluation, as a person types them."""

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
from seqloom.cli.files import gathered
from seqloom.config import Config, DataConfig, TrainConfig, make_config
from seqloom.errors import SeqloomError
from tests.train.small import PAIRS


def run(*arguments: str, capsys) -> str:
    app(args=gathered(arguments), standalone_mode=False)
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for side in ("source", "target"):
        text = "".join(f"{getattr(e, side)}\n" for e in PAIRS)
        (folder / f"train.{side}").write_text(text, encoding="utf-8")
    (folder / "test.tsv").write_text("".join(f"{e.source}\t{e.target}\n" for e in PAIRS[:30]), encoding="utf-8")
    return folder


QUICK = ("--set", "train.updates=20", "--set", "model.size=16", "--set", "train.evaluate_every=10")


@pytest.fixture(scope="module")
def trained(files):
    torch.set_num_threads(1)
    out = files / "run"
    app(
        args=gathered(["train", "--train", f"{files}/train.{{source,target}}", "--out", str(out), *QUICK]),
        standalone_mode=False,
    )
    return out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("train --train a.de a.en --out r", "train --train a.de --train a.en --out r"),
        ("train --train a.tsv c.yaml", "train --train a.tsv c.yaml"),
        ("evaluate r --data t.de t.en t2.en --json", "evaluate r --data t.de --data t.en --data t2.en --json"),
        ("train --train - --dev d.tsv", "train --train - --dev d.tsv"),
        ("predict run input", "predict run input"),
    ],
)
def test_files_as_a_shell_expands_them(typed, meant):
    assert gathered(typed.split()) == meant.split()


def test_a_run_is_made(trained):
    assert (trained / "model.safetensors").exists()
    assert (trained / "README.md").read_text(encoding="utf-8").startswith("# run\n")
    resolved = YAML(typ="safe").load((trained / "config.yaml").read_text(encoding="utf-8"))
    assert resolved["model"]["encoder"]["size"] == 16
    assert resolved["train"]["updates"] == 20
    assert make_config(resolved)


def test_a_configuration_file_does_the_same(files, trained, tmp_path, capsys):
    config = tmp_path / "config.yaml"
    paths = [f"{files}/train.source", f"{files}/train.target"]
    train = {"updates": 20, "evaluate_every": 10}
    config.write_text(json.dumps({"data": {"train": paths}, "model": {"size": 16}, "train": train}), encoding="utf-8")
    run("train", str(config), "--out", str(tmp_path / "run"), capsys=capsys)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_a_prepared_corpus_trains_the_same(files, trained, tmp_path, capsys):
    both = f"{files}/train.{{source,target}}"
    run("prepare", "--train", both, "--out", str(tmp_path / "corpus"), capsys=capsys)
    run("train", "--train", str(tmp_path / "corpus"), "--out", str(tmp_path / "run"), *QUICK, capsys=capsys)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert not (tmp_path / "run" / "data").exists()


def test_predict_answers_line_by_line(trained, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"afk\n\nbgl\n")))
    lines = run("predict", str(trained), capsys=capsys).split("\n")
    assert len(lines) == 4
    assert lines[1] == ""
    assert lines[3] == ""


def test_predict_answers_a_line_before_the_next_is_there(trained):
    """In a pipe whose other end waits for each answer."""
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
    shown = run("evaluate", str(trained), "--data", f"{files}/test.tsv", capsys=capsys)
    assert "exact" in shown
    assert "perplexity" in shown
    as_json = run("evaluate", str(trained), "--data", f"{files}/test.tsv", "--json", "--metric", "ser", capsys=capsys)
    assert "ser" in json.dumps(json.loads(as_json))
    compared = run(
        "evaluate",
        str(trained),
        "--against",
        str(trained),
        "--data",
        f"{files}/test.tsv",
        "--metric",
        "exact",
        capsys=capsys,
    )
    assert "exact" in compared


@pytest.mark.parametrize("preset", [None, *preset_names()])
def test_a_printed_configuration_is_complete_and_can_be_read_back(preset, capsys):
    if preset == "attention-lm":
        pytest.skip("a language model has no pairs to train on")
    printed = run("config", *(() if preset is None else ("--preset", preset)), capsys=capsys)
    config = make_config(YAML(typ="safe").load(printed))
    assert config.model["encoder"]["size"] == 256
    assert config.train.optimiser["rate"] > 0
    explained = [line for line in printed.splitlines() if "#" in line]
    assert len(explained) > 60
    there = YAML(typ="safe").load(printed)
    assert set(there) == set(Config.model_fields)
    assert set(there["data"]) == set(DataConfig.model_fields)
    assert set(there["train"]) == set(TrainConfig.model_fields)
    assert all(len(line) <= 118 for line in printed.splitlines())


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("train --out r", "there is nothing to train on"),
        ("train --train none.tsv --out r", "none.tsv"),
        ("train --train x.tsv", "say where the run is to be"),
        ("train --resume r --preset luong", "--resume goes on with a run as it is"),
        ("train --resume none", "is not a run"),
        ("train --train x.tsv --out r --set train.epoch=1", "did you mean 'epochs'"),
        ("evaluate none --data x.tsv", "is not a run"),
        ("predict none", "is not a run"),
        ("train --train - --dev - --out r", "not both"),
        ("train --train - --dev none.tsv --out r", "none.tsv is not there"),
        ("prepare --train - --dev - --out r", "not both"),
        ("prepare --out r", "say what to compile"),
        ("config --preset luon", "did you mean 'luong'"),
    ],
)
def test_what_makes_no_sense_is_refused(typed, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n" * 9)))
    with pytest.raises(SeqloomError) as raised:
        run(*typed.split(), capsys=capsys)
    assert says in str(raised.value)
    assert sys.stdin.buffer.tell() == 0, "nothing was read"
    assert not list(tmp_path.iterdir())


def test_options_of_the_search_alone_are_the_default_ones(files, capsys):
    assert make_config({"search": {"width": 10}}).search == {"name": "beam", "width": 10}
    assert make_config({"search": {"name": "greedy"}}).search == {"name": "greedy"}


def test_a_search_that_is_not_there_is_refused_before_training(files, tmp_path, capsys):
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


def test_a_run_without_its_checkpoint_is_left_as_it_is(trained, tmp_path, capsys):
    """It was trained anew, over what was there."""
    copy = tmp_path / "run"
    shutil.copytree(trained, copy)
    shutil.rmtree(copy / "checkpoints")
    before = {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    with pytest.raises(SeqloomError, match="nothing can go on without it"):
        run("train", "--resume", str(copy), "--set", "train.updates=40", capsys=capsys)
    assert before == {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}


def test_a_prepared_corpus_that_is_made_anew_stops_its_runs(files, tmp_path, capsys):
    """Ids of new tokens would be read as those of the old."""
    corpus, out = str(tmp_path / "corpus"), str(tmp_path / "run")
    run("prepare", "--train", f"{files}/test.tsv", "--out", corpus, capsys=capsys)
    run("train", "--train", corpus, "--out", out, *QUICK, capsys=capsys)
    shutil.rmtree(corpus)
    upper = tmp_path / "upper.tsv"
    upper.write_text((files / "test.tsv").read_text(encoding="utf-8").upper(), encoding="utf-8")
    run("prepare", "--train", str(upper), "--out", corpus, capsys=capsys)
    with pytest.raises(SeqloomError, match="prepared anew"):
        run("train", "--resume", out, "--set", "train.updates=40", capsys=capsys)


@pytest.mark.parametrize("most", [2, 250])
def test_a_prepared_corpus_with_the_same_tokens_but_other_pairs_stops_its_runs_too(most, files, tmp_path, capsys):
    """Its batches are others. The same pairs again are fine."""
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\ta\n" + (files / "test.tsv").read_text(encoding="utf-8"), encoding="utf-8")
    corpus, out = str(tmp_path / "corpus"), str(tmp_path / "run")
    made = ("prepare", "--train", str(pairs), "--out", corpus, "--dev")
    run(*made, str(pairs), capsys=capsys)
    run("train", "--train", corpus, "--out", out, *QUICK, capsys=capsys)
    run(*made, str(pairs), capsys=capsys)
    run("train", "--resume", out, "--set", "train.updates=21", capsys=capsys)
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    dev = pairs if most == 2 else files / "test.tsv"
    run(*made, str(dev), "--set", f"data.max_length={most}", capsys=capsys)
    with pytest.raises(SeqloomError, match="prepared anew, with other pairs"):
        run("train", "--resume", out, "--set", "train.updates=40", capsys=capsys)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--dev", "{files}/test.tsv"], "leave out --dev"),
        *(
            (["--set", f"data.{field}={value}"], f"leave out data.{field}")
            for field, value in [
                ("source", "byte"),
                ("target", "byte"),
                ("shared", "true"),
                ("max_length", "20"),
                ("empty", "refuse"),
                ("format", "tsv"),
                ("columns", "[1, 0]"),
                ("header", "true"),
            ]
        ),
    ],
)
def test_what_a_prepared_corpus_decides_can_not_be_given_beside_it(more, says, files, tmp_path, capsys):
    corpus = str(tmp_path / "corpus")
    run("prepare", "--train", f"{files}/test.tsv", "--out", corpus, capsys=capsys)
    given = [word.format(files=files) for word in more]
    with pytest.raises(SeqloomError, match=says):
        run("train", "--train", corpus, "--out", str(tmp_path / "run"), *QUICK, *given, capsys=capsys)


def test_a_run_on_a_prepared_corpus_tells_how_it_was_prepared_and_can_be_trained_again(files, tmp_path, capsys):
    corpus = str(tmp_path / "corpus")
    one = ("--set", "data.shared=true", "--set", "data.max_length=99")
    run("prepare", "--train", f"{files}/test.tsv", "--out", corpus, *one, capsys=capsys)
    run("train", "--train", corpus, "--out", str(tmp_path / "run"), *QUICK, capsys=capsys)
    config = tmp_path / "run" / "config.yaml"
    data = YAML(typ="safe").load(config.read_text(encoding="utf-8"))["data"]
    assert (data["train"], data["shared"], data["max_length"]) == ([corpus], True, 99)
    run("train", str(config), "--out", str(tmp_path / "again"), capsys=capsys)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "again")]
    assert weights[0] == weights[1]


def test_a_corpus_of_an_earlier_attempt_is_not_taken_for_the_runs_own(files, tmp_path, capsys):
    corpus, out = tmp_path / "corpus", tmp_path / "run"
    run("prepare", "--train", f"{files}/test.tsv", "--out", str(corpus), capsys=capsys)
    run("prepare", "--train", f"{files}/train.{{source,target}}", "--out", str(out / "data"), capsys=capsys)
    run("train", "--train", str(corpus), "--out", str(out), *QUICK, capsys=capsys)
    assert not (out / "data").exists()


def test_runs_with_other_tokens_can_be_compared(trained, files, tmp_path, capsys):
    other = ("--set", "data.target={name: bpe, min_count: 2, size: 40}")
    run("train", "--train", f"{files}/test.tsv", "--out", str(tmp_path / "r"), *QUICK, *other, capsys=capsys)
    text = run(
        "evaluate", str(trained), "--against", str(tmp_path / "r"), "--data", f"{files}/test.tsv", "--json",
        capsys=capsys,
    )  # fmt: skip
    found = json.loads(text)
    assert found["names"] == [str(trained), str(tmp_path / "r")]
    assert "exact" in text
    assert "token_accuracy" not in text


def test_a_comparison_reads_a_pipe_once(trained, files, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((files / "test.tsv").read_bytes())))
    text = run("evaluate", str(trained), "--against", str(trained), "--data", "-", "--json", capsys=capsys)
    assert json.loads(text)


def test_what_evaluation_leaves_out_is_counted(trained, tmp_path, capsys):
    (tmp_path / "t.txt").write_text("afk\tkfa\n\tkfa\nbgl\t\n", encoding="utf-8")
    app(
        args=gathered(
            ["evaluate", str(trained), "--data", f"{tmp_path}/t.txt", "--format", "tsv", "--bootstrap", "0"]
        ),
        standalone_mode=False,
    )
    assert "seqloom: 2 pairs are left out" in capsys.readouterr().err


def test_a_line_of_spaces_is_blank(trained, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(" \nafk\n\u3000\t\n".encode())))
    typed = ("predict", str(trained), "--min-length", "1")
    blank, answer, also_blank, end = run(*typed, capsys=capsys).split("\n")
    assert (blank, also_blank, end) == ("", "", "")
    assert answer


def test_a_preset_and_a_size_win_over_a_complete_configuration(trained, tmp_path, capsys):
    """It was the old model at its old size that was trained, without a word."""
    for number, printed in enumerate([run("config", capsys=capsys), (trained / "config.yaml").read_text()]):
        config, out = tmp_path / f"{number}.yaml", tmp_path / str(number)
        config.write_text(printed, encoding="utf-8")
        typed = ("--preset", "transformer", "--set", "model.size=8")
        quick = ("--set", "train.updates=1", "--set", "train.schedule=constant")
        data = ("--train", str(trained.parent / "test.tsv"))
        run("train", str(config), *data, "--out", str(out), *typed, *quick, capsys=capsys)
        model = YAML(typ="safe").load((out / "config.yaml").read_text(encoding="utf-8"))["model"]
        assert (model["decoder"]["name"], model["decoder"]["size"]) == ("transformer", 8)


def test_updates_that_were_set_are_in_the_printed_configuration(capsys):
    text = run("config", "--set", "train.updates=1234", capsys=capsys)
    assert YAML(typ="safe").load(text)["train"]["updates"] == 1234


@pytest.mark.parametrize(
    "files", [["train.{de,en}"], ["a: b", "#c", "12"], ["long/" * 40 + "de", "long/" * 40 + "en"]], ids=str
)
def test_lists_in_the_printed_configuration_can_be_read_back(files, capsys):
    text = run("config", "--set", f"data.train={json.dumps(files)}", capsys=capsys)
    assert YAML(typ="safe").load(text)["data"]["train"] == files


def test_an_error_while_more_is_awaited_ends_in_order(trained, tmp_path):
    """A thread still waits for standard input then."""
    command = [sys.executable, "-m", "seqloom", "predict", str(trained), "--format", "jsonl"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdin.write('{"source": "afk", "prefix": "€"}\n')
        process.stdin.flush()
        assert process.wait(timeout=60) == 2
        assert "Fatal" not in process.stderr.read()


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("train.optimiser=adan", "did you mean"),
        ("train.schedule=cosin", "did you mean"),
        ("train.metric=blue", "did you mean"),
        ("train.optimiser.rtae=1", "did you mean 'rate'"),
        ("train.schedule.warmpu=1", "did you mean 'warmup'"),
        ("train.metric.lowercase=true", "names no part"),
        ("train.sampling.feed=sample", "names no part"),
    ],
)
def test_parts_of_training_are_refused_before_the_data_is_read(typed, says, tmp_path, capsys):
    with pytest.raises(SeqloomError, match=says):
        run("train", "--train", "nowhere.tsv", "--out", str(tmp_path / "r"), "--set", typed, capsys=capsys)


def test_a_run_tells_what_it_was_trained_on(trained, files):
    text = (trained / "README.md").read_text(encoding="utf-8")
    assert f"- train: {files}/train.source, {files}/train.target" in text


def test_evaluation_takes_constraints_as_prediction_does(trained, files, capsys):
    """Text stays text, and what is repeatable is kept whole."""
    typed = (
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
    free, bound = (json.loads(run(*typed, *more, capsys=capsys))["metrics"]["chrf"]["value"] for more in ((), words))
    asked = load(trained).evaluate(files / "test.tsv", metrics=["chrf"], bootstrap=0, forbid=list("klmn"))
    assert bound == asked["chrf"].value
    assert bound != free
