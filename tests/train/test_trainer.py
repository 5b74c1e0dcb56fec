"""The trainer: log files, validation, checkpoints, early stopping, and errors."""

import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

import seqloom
import seqloom.train.trainer
from seqloom.errors import ConfigError, TrainingError
from seqloom.merge import merge
from seqloom.train.checkpoint import load_checkpoint, load_weights, random_state, set_random_state
from seqloom.train.display import Display, PlainDisplay
from seqloom.train.folder import JsonlLog
from seqloom.train.run import resume
from seqloom.train.trainer import Trainer
from seqloom.train.validator import ValidationResult, Validator
from tests.train.small import BASE, PAIRS, trained, validations

SMALL = {"layers": 2, "heads": 4}
SMALL_TRANSFORMER = {"preset": "transformer", "encoder": SMALL, "decoder": SMALL}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    shown = io.StringIO()
    folder = trained(
        tmp_path_factory.mktemp("run") / "run", {"train": {"keep_best_checkpoints": 2}}, display=PlainDisplay(shown)
    )
    return folder, shown.getvalue()


def test_run_folder_contains_expected_files(run):
    folder, _ = run
    names = {path.name for path in folder.path.iterdir()}
    expected = {"config.yaml", "fields.json", "model.safetensors", "metrics.jsonl", "timing.jsonl", "README.md"}
    assert names == expected | {"checkpoints", "data"}
    assert folder.finished


def test_only_timing_log_contains_times(run):
    folder, _ = run
    records = list(JsonlLog(folder.metrics))
    assert [r["update"] for r in records if "loss" in r] == [2, 4, 6, 8, 10, 12]
    assert [r["update"] for r in records if "dev" in r] == [4, 8, 12]
    assert all("seconds" not in r for r in records)
    timed = list(JsonlLog(folder.timing))
    assert [t["update"] for t in timed] == [2, 4, 6, 8, 10, 12]
    assert all(0 <= t["data_wait_seconds"] <= t["seconds"] for t in timed)
    assert sum(t["target_tokens"] for t in timed[:2]) == 64 * 4  # words of three letters, and EOS


def test_log_shows_progress_and_chosen_options(run):
    _, shown = run
    for word in (
        "epoch",
        "update 12/12",
        "loss",
        "perplexity",
        "lr",
        "tokens/s",
        "left",
        "dev exact_match",
        "chosen to fit",
    ):
        assert word in shown, word


def test_final_weights_are_average_of_best_checkpoints(run):
    folder, _ = run
    state = load_checkpoint(folder.checkpoint)["trainer"]
    kept = [load_weights(folder.best_checkpoint(update)) for _, update in state["best"]]
    assert len(kept) == 2
    final = load_weights(folder.weights)
    for name, tensor in final.items():
        torch.testing.assert_close(tensor, (kept[0][name] + kept[1][name]) / 2)


def test_best_checkpoints_are_loaded_one_at_a_time(run, monkeypatch):
    """Loading all of them at once would need the memory of several models."""
    folder, _ = run
    loaded = []
    monkeypatch.setattr(seqloom.train.trainer, "load_weights", lambda path: loaded.append(path) or {})
    best = load_checkpoint(folder.checkpoint)["trainer"]["best"]
    weights = Trainer.best_weights(SimpleNamespace(state=SimpleNamespace(best=best), folder=folder))
    for number, _ in enumerate(weights, 1):
        assert loaded == [folder.best_checkpoint(update) for _, update in best[:number]]
    assert len(loaded) == 2


@pytest.mark.parametrize("several", [True, False])
def test_random_state_of_any_accelerator_is_saved(several, monkeypatch):
    """With a mock accelerator. CUDA has a function for all devices, MPS only one for its single device."""
    generator = {"state": [3]}
    ending = "_all" if several else ""
    functions = {"get": lambda: list(generator["state"]), "set": lambda state: generator.update(state=state)}
    module = SimpleNamespace(**{f"{name}_rng_state{ending}": function for name, function in functions.items()})
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch, "get_device_module", lambda: module)
    state = random_state()
    drawn, generator["state"] = torch.rand(3), [9]
    set_random_state(state)
    assert generator["state"] == [3]
    assert torch.equal(torch.rand(3), drawn)


def test_readme_describes_run(run):
    folder, _ = run
    readme = folder.readme.read_text(encoding="utf-8")
    for fact in ("80", "character", "parameters", "exact_match|nrefs:1", "seqloom predict"):
        assert fact in readme, fact


def test_same_configuration_gives_identical_run(run, tmp_path):
    folder, _ = run
    again = trained(tmp_path / "again", {"train": {"keep_best_checkpoints": 2}})
    assert again.metrics.read_bytes() == folder.metrics.read_bytes()
    assert again.weights.read_bytes() == folder.weights.read_bytes()
    other = trained(tmp_path / "other", {"seed": 2, "train": {"keep_best_checkpoints": 2}})
    assert other.weights.read_bytes() != folder.weights.read_bytes()


def test_checkpoint_frequency_does_not_change_results(run, tmp_path):
    folder, _ = run
    often = trained(tmp_path / "often", {"train": {"keep_best_checkpoints": 2, "checkpoint_seconds": 1e-9}})
    assert often.weights.read_bytes() == folder.weights.read_bytes()


def test_early_stopping(tmp_path):
    """With a tiny learning rate, no validation is better than the first."""
    settings = {"train": {"updates": 100, "patience": 2, "optimizer": {"name": "sgd", "lr": 1e-12}}}
    folder = trained(tmp_path / "run", settings)
    assert [record["update"] for record in validations(folder)] == [4, 8, 12]
    assert folder.finished


@pytest.mark.parametrize(
    ("metric", "is_best"),
    [("loss", [True, False, True]), ("per", [True, False, True]), ("exact_match", [True, True, False])],
)
def test_any_metric_can_be_validation_metric(tmp_path, monkeypatch, metric, is_best):
    values = iter([50.0, 60.0, 40.0])
    validate = Validator.__call__

    def with_next_value(*arguments):
        result = validate(*arguments)
        assert metric in result.metrics
        return result._replace(metrics={**result.metrics, metric: next(values)})

    monkeypatch.setattr(Validator, "__call__", with_next_value)
    folder = trained(tmp_path / "run", {"train": {"validation_metric": metric}})
    assert [record["is_best"] for record in validations(folder)] == is_best
    kept = load_checkpoint(folder.checkpoint)["trainer"]["best"]
    assert kept == [(60.0, 8) if metric == "exact_match" else (40.0, 12)]


def test_divergence_stops_training_with_advice(tmp_path):
    """The last checkpoint is still valid."""
    settings = {
        "clip_grad_norm": 0,
        "updates": 60,
        "checkpoint_seconds": 1e-9,
        "optimizer": {"name": "sgd", "lr": 1e6},
    }
    with pytest.raises(TrainingError, match=r"update \d+ (is not|diverges|has a gradient).*lower train\.optimizer"):
        trained(tmp_path / "run", {"train": settings})
    state = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.pt")
    assert all(tensor.isfinite().all() for tensor in state["network"].values())


@pytest.mark.parametrize(
    "settings",
    [
        {"gradient_accumulation_steps": 3},
        {"ema_decay": 0.99},
        {"scheduled_sampling": {"name": "inverse_sigmoid", "k": 5}},
        {"optimizer": "adadelta"},
        {"optimizer": {"name": "adamw", "weight_decay": 0.1}, "schedule": {"name": "noam", "warmup": 4}},
        {"schedule": {"name": "inverse_sqrt", "warmup": 3}},
        {"tensorboard": True},
        {"batch_sentences": None, "batch_tokens": 60},
    ],
    ids=str,
)
def test_training_options_lower_loss(tmp_path, settings):
    folder = trained(tmp_path / "run", {"train": {"updates": 24, **settings}})
    losses = [record["loss"] for record in JsonlLog(folder.metrics) if "loss" in record]
    assert losses[-1] < losses[0]
    assert all(math.isfinite(loss) for loss in losses)
    if settings.get("tensorboard"):
        (file,) = (folder.path / "tensorboard").iterdir()
        assert b"train/loss" in file.read_bytes()
        assert b"dev/" in file.read_bytes()


def test_existing_folder_is_not_overwritten(run, tmp_path):
    folder, _ = run
    with pytest.raises(ConfigError, match="already contains a run: resume it"):
        trained(folder.path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="is not a run"):
        trained(tmp_path / "mine")


def test_batch_size_in_both_units_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match="not both"):
        trained(tmp_path / "run", {"train": {"batch_tokens": 100}})


def test_ctrl_c_saves_and_shows_how_to_resume(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{e.source}\t{e.target}\n" for e in PAIRS), encoding="utf-8")
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({**BASE, "train": {**BASE["train"], "updates": 100000, "checkpoint_seconds": 1000}}))
    command = [
        sys.executable,
        "-m",
        "seqloom",
        "train",
        str(config),
        "--train",
        str(pairs),
        "--out",
        str(tmp_path / "r"),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("epoch"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130, rest
    assert "to resume: seqloom train --resume" in rest
    update = load_checkpoint(tmp_path / "r" / "checkpoints" / "last.pt")["trainer"]["update"]
    assert update > 0
    assert len(seqloom.load(tmp_path / "r").predict(["afk"])) == 1


def test_bfloat16_trains_or_is_rejected_with_reason(tmp_path):
    """In a separate process, since it crashes on machines that report instructions they don't support."""
    code = f"""
from pathlib import Path
from tests.train.small import trained, JsonlLog
folder = trained(Path({str(tmp_path / "run")!r}), {{"train": {{"updates": 24, "precision": "bfloat16"}}}})
losses = [record["loss"] for record in JsonlLog(folder.metrics) if "loss" in record]
assert losses[-1] < losses[0], losses
"""
    for environment, works in ((None, False), ({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}, True)):
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **(environment or {})}
        )
        if ran.returncode == 0:
            return
        assert "ONEDNN_MAX_CPU_ISA" in ran.stderr and not works, ran.stderr  # noqa: PT018


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
@pytest.mark.parametrize("model", [{"preset": "recurrent"}, SMALL_TRANSFORMER], ids=lambda model: model["preset"])
def test_compiled_model_has_same_losses(tmp_path, model):
    settings = {"model": model, "train": {"updates": 6}}
    eager = trained(tmp_path / "eager", settings)
    compiled = trained(tmp_path / "compiled", merge(settings, {"train": {"compile": True}}))
    for one, other in zip(JsonlLog(eager.metrics), JsonlLog(compiled.metrics), strict=True):
        if "loss" in one:
            assert other["loss"] == pytest.approx(one["loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("loss", "norm", "message"),
    [
        (math.nan, 1.0, "is not finite"),
        (1.0, math.inf, "has a gradient that is not finite"),
        (99.0, 1.0, "diverges: it is 99.0, and a uniform distribution has a loss of 2.3"),
    ],
)
def test_divergence_error_explains_problem(loss, norm, message):
    trainer = SimpleNamespace(
        validator=SimpleNamespace(vocab_size=10),
        state=SimpleNamespace(update=6),
        folder=SimpleNamespace(path="runs/x"),
    )
    with pytest.raises(TrainingError, match=message) as raised:
        Trainer._check_divergence(trainer, loss, torch.tensor(norm))
    assert "update 7" in str(raised.value)
    assert "lower train.optimizer.lr" in str(raised.value)
    Trainer._check_divergence(trainer, 2.0, torch.tensor(1.0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 1}, "must be less than the 5 updates"),
        ({"updates": None, "epochs": None}, "training has no limit"),
    ],
)
def test_invalid_limits_leave_run_unchanged(tmp_path, changes, message):
    """The configuration was overwritten first, so that the run could not be resumed at all."""
    folder = trained(tmp_path / "run", {"train": {"schedule": {"name": "cosine", "warmup": 6}}})
    before = {path: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}
    with pytest.raises(ConfigError, match=message):
        resume(folder.path, {"train": changes}, display=Display())
    assert {path: path.read_bytes() for path in folder.path.iterdir() if path.is_file()} == before


def test_run_that_stopped_early_continues_with_new_limit(tmp_path):
    """It used to stop again at once; being killed right after it resumes must not change that."""
    tiny_lr = {"name": "sgd", "lr": 1e-12}
    folder = trained(tmp_path / "run", {"train": {"updates": 100, "patience": 2, "optimizer": tiny_lr}})
    assert validations(folder)[-1]["update"] == 12
    resume(folder.path, {}, display=Display())
    assert validations(folder)[-1]["update"] == 12
    resume(folder.path, {"train": {"updates": 200}}, display=Display())
    assert [record["update"] for record in validations(folder)] == [4, 8, 12, 16, 20]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Trainer, "run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            resume(folder.path, {"train": {"epochs": 300}}, display=Display())
    resume(folder.path, {}, display=Display())
    assert validations(folder)[-1]["update"] == 28


def test_run_without_corpus_can_not_be_resumed(tmp_path):
    folder = trained(tmp_path / "run")
    shutil.rmtree(folder.data)
    with pytest.raises(
        ConfigError, match="run/data, the prepared corpus of this run, is missing: the run can't be resumed"
    ):
        resume(folder.path, {}, display=Display())
    assert isinstance(seqloom.load(folder.path).predict("afk"), str)


@pytest.mark.parametrize(
    ("part", "max_positions", "message"),
    [
        ("encoder", 2, "a source in the train data has 3 tokens, but the model has positions for 2"),
        ("decoder", 3, "a target in the train data has 3 tokens, but the model has positions for 2"),
        ("encoder", 3, None),
        ("decoder", 4, None),
    ],
)
def test_too_few_positions_are_rejected_before_training(tmp_path, part, max_positions, message):
    """Training used to fail at the first longer batch, and could not be resumed."""
    positions = {"positional_encoding": {"name": "learned", "max_positions": max_positions}}
    model = merge(SMALL_TRANSFORMER, {part: positions})
    if message is None:
        assert trained(tmp_path / "run", {"model": model}).finished
        return
    with pytest.raises(ConfigError, match=message) as raised:
        trained(tmp_path / "run", {"model": model})
    assert f"model.{part}.positional_encoding.max_positions={max_positions + 1}" in str(raised.value)
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_partial_files_are_removed_by_new_and_resumed_runs(tmp_path):
    out = tmp_path / "run"
    for start in (trained, lambda path: resume(path, {}, display=Display())):
        (out / ".data.x1y2").mkdir(parents=True)
        (out / ".data.x1y2" / "train.arrow").write_text("partial")
        (out / ".config.yaml.77.part").write_text("partial")
        start(out)
        assert not [path.name for path in out.iterdir() if path.name.startswith(".")]


def test_resumed_run_truncates_timing_log(tmp_path):
    """Lines after the checkpoint were written twice, and counted tokens from before it."""
    folder = trained(tmp_path / "run", {"train": {"updates": 5, "checkpoint_seconds": 1e-9}})
    JsonlLog(folder.timing).append({"update": 6, "seconds": 1.0, "target_tokens": 64, "data_wait_seconds": 0.0})
    resume(folder.path, {"train": {"updates": 8}}, display=Display())
    timed = [(lap["update"], lap["target_tokens"]) for lap in JsonlLog(folder.timing)]
    assert timed == [(2, 128), (4, 128), (6, 64), (8, 128)]


def test_learning_rate_follows_schedule(tmp_path):
    settings = {"updates": 12, "log_every": 1, "optimizer": {"name": "adam", "lr": 0.01}}
    folder = trained(tmp_path / "run", {"train": {**settings, "schedule": {"name": "constant", "warmup": 4}}})
    lrs = [record["lr"] for record in JsonlLog(folder.metrics) if "lr" in record]
    assert lrs == pytest.approx([0.0025, 0.005, 0.0075] + [0.01] * 9)


def logged(out, sampling):
    """Loss and teacher forcing ratio of each of eight updates."""
    settings = {"updates": 8, "evaluate_every": 8, "log_every": 1, "scheduled_sampling": sampling}
    records = [record for record in JsonlLog(trained(out, {"train": settings}).metrics) if "loss" in record]
    return [record["loss"] for record in records], [record.get("teacher_forcing_ratio") for record in records]


def test_scheduled_sampling_follows_decay(tmp_path):
    """Teacher forcing up to the fifth update, then also the model's predictions."""
    forced, none = logged(tmp_path / "forced", None)
    assert none == [None] * 8
    losses, ratios = logged(tmp_path / "linear", {"name": "linear", "steps": 2, "minimum": 0.25, "start": 5})
    assert ratios == [1.0] * 5 + [0.5, 0.25, 0.25]
    assert losses[:5] == forced[:5]
    assert all(one != other for one, other in zip(losses[5:], forced[5:], strict=True))


def test_scheduled_sampling_feeds_argmax_or_sample(tmp_path):
    argmax, sampled = (
        logged(tmp_path / feed, {"name": "constant", "teacher_forcing_ratio": 0.0, "feed": feed})[0]
        for feed in ("argmax", "sample")
    )
    assert argmax[0] != sampled[0]


@pytest.mark.parametrize(
    ("metric", "factors"),
    [("exact_match", [1, 1, 1, 1 / 2, 1 / 2, 1 / 4]), ("loss", [1, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 16])],
)
def test_plateau_follows_validation_metric(tmp_path, monkeypatch, metric, factors):
    """The same values for a metric where higher is better, and for one where lower is better."""
    values = iter([1.0, 2.0, 2.0, 3.0, 1.0, 1.0])
    monkeypatch.setattr(
        Validator, "__call__", lambda *_: ValidationResult({metric: next(values)}, 0, ("a", "b", "c"))
    )
    settings = {
        "log_every": 1,
        "evaluate_every": 2,
        "validation_metric": metric,
        "optimizer": {"name": "adam", "lr": 0.01},
        "schedule": {"name": "plateau", "patience": 1, "decay": 0.5},
    }
    folder = trained(tmp_path / "run", {"train": settings})
    lrs = [record["lr"] for record in JsonlLog(folder.metrics) if "lr" in record]
    assert lrs == pytest.approx([0.01 * factor for factor in factors for _ in range(2)])


STUCK_AT_ZERO = [(0.0, 3.0), (0.3, 2.0), (0.0, 1.0), (0.0, 1.5), (0.2, 1.2), (0.0, 2.5)]


@pytest.mark.parametrize(
    ("values", "best"),
    [
        (STUCK_AT_ZERO, 6),
        ([(value + 50, loss) for value, loss in STUCK_AT_ZERO], 4),
        ([*STUCK_AT_ZERO[:5], (5.0, 9.0)], 12),
    ],
    ids=["stuck", "moves", "moves later"],
)
def test_validation_loss_selects_checkpoint_while_metric_is_stuck(tmp_path, monkeypatch, values, best):
    given = iter(values)
    found = ({"exact_match": value, "loss": loss} for value, loss in given)
    monkeypatch.setattr(Validator, "__call__", lambda *_: ValidationResult(next(found), 0, ("a", "b", "c")))
    shown = io.StringIO()
    folder = trained(tmp_path / "run", {"train": {"evaluate_every": 2}}, display=PlainDisplay(shown))
    assert load_checkpoint(folder.checkpoint)["trainer"]["best"][0][1] == best
    assert ("Until it changes, the validation loss selects" in shown.getvalue()) == (best != 4)
    assert ("exact_match has changed" in shown.getvalue()) == (best == 12)


def test_validation_loss_breaks_ties_in_short_runs(tmp_path, monkeypatch):
    """Two validations are too few to report the metric as stuck, but the better weights are kept."""
    found = iter([ValidationResult({"exact_match": 0.0, "loss": loss}, 0, ("a", "b", "c")) for loss in (3.0, 2.0)])
    monkeypatch.setattr(Validator, "__call__", lambda *_: next(found))
    shown = io.StringIO()
    folder = trained(tmp_path / "run", {"train": {"evaluate_every": 6}}, display=PlainDisplay(shown))
    assert load_checkpoint(folder.checkpoint)["trainer"]["best"] == [(0.0, 12)]
    assert "exact_match had the same value in all 2 validations" in shown.getvalue()


def test_log_shows_tokenized_pairs(run):
    _, shown = run
    assert "a·f·k  →  k·f·a" in shown
    assert shown.count("  →  ") == 3
    assert "--set data.target_tokenizer=" in shown


def test_improving_run_shows_how_to_continue(tmp_path, monkeypatch):
    for last, expected in ((60.0, True), (40.0, False)):
        found = iter([10.0, 50.0, last])
        monkeypatch.setattr(
            Validator,
            "__call__",
            lambda *_, found=found: ValidationResult({"exact_match": next(found)}, 0, ("a", "b", "c")),
        )
        shown = io.StringIO()
        folder = trained(tmp_path / f"{last}", display=PlainDisplay(shown))
        continues = f"seqloom train --resume {folder.path} --set train.updates=24"
        assert (continues in shown.getvalue()) == expected


def test_saved_weights_are_moving_average(tmp_path):
    """After two updates, with d = 1/10 for the first and 2/11 for the second."""
    base = {"evaluate_every": 2, "schedule": "constant", "optimizer": {"name": "sgd", "lr": 1.0}}
    base["ema_decay"] = 0
    none = {**base, "optimizer": {"name": "sgd", "lr": 1e-12}, "updates": 1}
    runs = {"w0": none, "w1": {**base, "updates": 1}, "w2": {**base, "updates": 2}}
    runs["mean"] = {**base, "updates": 2, "ema_decay": 0.9}
    found = {name: load_weights(trained(tmp_path / name, {"train": train}).weights) for name, train in runs.items()}
    for name, mean in found["mean"].items():
        first = 1 / 10 * found["w0"][name] + 9 / 10 * found["w1"][name]
        torch.testing.assert_close(mean, 2 / 11 * first + 9 / 11 * found["w2"][name], rtol=1e-4, atol=1e-5)
