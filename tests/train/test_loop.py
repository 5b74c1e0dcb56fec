"""The loop: what it writes, when it stops, what it keeps, and what it does with a bad end."""

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
import seqloom.train.loop
from seqloom.errors import OptionError, TrainingError
from seqloom.merge import merge
from seqloom.train.checkpoint import load_checkpoint, load_weights, random_state, set_random_state
from seqloom.train.display import Display, PlainDisplay
from seqloom.train.folder import Lines
from seqloom.train.judge import Judge, Judgement
from seqloom.train.loop import Loop
from seqloom.train.start import resume
from tests.train.small import BASE, PAIRS, evaluations, trained


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    shown = io.StringIO()
    folder = trained(tmp_path_factory.mktemp("run") / "run", {"train": {"keep": 2}}, display=PlainDisplay(shown))
    return folder, shown.getvalue()


def test_a_run_is_a_folder(run):
    folder, _ = run
    names = {path.name for path in folder.path.iterdir()}
    expected = {"config.yaml", "fields.json", "model.safetensors", "metrics.jsonl", "timing.jsonl", "README.md"}
    assert names == expected | {"checkpoints", "data"}
    assert folder.finished


def test_metrics_hold_no_time_and_timing_does(run):
    folder, _ = run
    records = list(Lines(folder.metrics))
    assert [r["update"] for r in records if "loss" in r] == [2, 4, 6, 8, 10, 12]
    assert [r["update"] for r in records if "dev" in r] == [4, 8, 12]
    assert all("seconds" not in r for r in records)
    timed = list(Lines(folder.timing))
    assert [t["update"] for t in timed] == [2, 4, 6, 8, 10, 12]
    assert all(0 <= t["waited_for_batches"] <= t["seconds"] for t in timed)
    assert sum(t["target_tokens"] for t in timed[:2]) == 64 * 4  # words of three letters, and END


def test_the_display_says_where_training_stands(run):
    _, shown = run
    for word in ("epoch", "update 12/12", "loss", "perplexity", "tokens/s", "left", "dev exact", "chosen to suit"):
        assert word in shown, word


def test_the_final_weights_are_the_average_of_those_kept(run):
    folder, _ = run
    standing = load_checkpoint(folder.checkpoint)["standing"]
    kept = [load_weights(folder.kept(update)) for _, update in standing["best"]]
    assert len(kept) == 2
    final = load_weights(folder.weights)
    for name, tensor in final.items():
        torch.testing.assert_close(tensor, (kept[0][name] + kept[1][name]) / 2)


def test_kept_weights_are_loaded_one_by_one(run, monkeypatch):
    """All of them at once need the memory of as many models."""
    folder, _ = run
    loaded = []
    monkeypatch.setattr(seqloom.train.loop, "load_weights", lambda path: loaded.append(path) or {})
    best = load_checkpoint(folder.checkpoint)["standing"]["best"]
    weights = Loop.best_weights(SimpleNamespace(standing=SimpleNamespace(best=best), folder=folder))
    for number, _ in enumerate(weights, 1):
        assert loaded == [folder.kept(update) for _, update in best[:number]]
    assert len(loaded) == 2


@pytest.mark.parametrize("several", [True, False])
def test_random_numbers_of_any_accelerator_are_kept(several, monkeypatch):
    """By a stand-in: none is here. Those of CUDA alone were kept, and MPS has one device only."""
    stands = {"at": [3]}
    ending = "_all" if several else ""
    functions = {"get": lambda: list(stands["at"]), "set": lambda state: stands.update(at=state)}
    module = SimpleNamespace(**{f"{name}_rng_state{ending}": function for name, function in functions.items()})
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch, "get_device_module", lambda: module)
    state = random_state()
    drawn, stands["at"] = torch.rand(3), [9]
    set_random_state(state)
    assert stands["at"] == [3]
    assert torch.equal(torch.rand(3), drawn)


def test_a_page_tells_what_the_run_is(run):
    folder, _ = run
    page = folder.readme.read_text(encoding="utf-8")
    for fact in ("80", "character", "parameters", "exact|nrefs:1", "seqloom predict"):
        assert fact in page, fact


def test_the_same_configuration_gives_the_same_run(run, tmp_path):
    folder, _ = run
    again = trained(tmp_path / "again", {"train": {"keep": 2}})
    assert again.metrics.read_bytes() == folder.metrics.read_bytes()
    assert again.weights.read_bytes() == folder.weights.read_bytes()
    other = trained(tmp_path / "other", {"seed": 2, "train": {"keep": 2}})
    assert other.weights.read_bytes() != folder.weights.read_bytes()


def test_checkpoints_change_nothing(run, tmp_path):
    folder, _ = run
    often = trained(tmp_path / "often", {"train": {"keep": 2, "checkpoint_seconds": 1e-9}})
    assert often.weights.read_bytes() == folder.weights.read_bytes()


def test_training_stops_when_nothing_gets_better(tmp_path):
    """With a rate of almost nothing no evaluation beats the first."""
    settings = {"train": {"updates": 100, "patience": 2, "optimiser": {"name": "sgd", "rate": 1e-12}}}
    folder = trained(tmp_path / "run", settings)
    assert [record["update"] for record in evaluations(folder)] == [4, 8, 12]
    assert folder.finished


@pytest.mark.parametrize("metric", ["loss", "exact", "ser"])
def test_any_metric_can_decide(tmp_path, metric):
    folder = trained(tmp_path / "run", {"train": {"metric": metric, "optimiser": {"rate": 0.02}}})
    found = evaluations(folder)
    sign = -1 if metric == "exact" else 1
    ranks = [(sign * record["dev"][metric], record["dev"]["loss"]) for record in found]  # the loss breaks ties
    assert [record["best"] for record in found] == [
        rank < min(ranks[:n], default=(100, 100)) for n, rank in enumerate(ranks)
    ]
    kept = load_checkpoint(folder.checkpoint)["standing"]["best"]
    assert kept[0][0] == sign * min(ranks)[0]


def test_a_loss_that_is_not_a_number_stops_with_advice(tmp_path):
    """And what was saved before is still good."""
    settings = {"clip": 0, "updates": 60, "checkpoint_seconds": 1e-9, "optimiser": {"name": "sgd", "rate": 1e6}}
    with pytest.raises(TrainingError, match=r"update \d+ (is not|diverges|has a gradient).*lower train\.optimiser"):
        trained(tmp_path / "run", {"train": settings})
    state = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.pt")
    assert all(tensor.isfinite().all() for tensor in state["network"].values())


@pytest.mark.parametrize(
    "settings",
    [
        {"accumulate": 3},
        {"moving_average": 0.99},
        {"sampling": {"name": "inverse_sigmoid", "k": 5}},
        {"optimiser": "adadelta"},
        {"optimiser": {"name": "adamw", "weight_decay": 0.1}, "schedule": {"name": "noam", "warmup": 4}},
        {"schedule": {"name": "inverse_sqrt", "warmup": 3}},
        {"tensorboard": True},
        {"batch_sentences": None, "batch_tokens": 60},
    ],
    ids=str,
)
def test_every_way_to_train_lowers_the_loss(tmp_path, settings):
    folder = trained(tmp_path / "run", {"train": {"updates": 24, **settings}})
    losses = [record["loss"] for record in Lines(folder.metrics) if "loss" in record]
    assert losses[-1] < losses[0]
    assert all(math.isfinite(loss) for loss in losses)
    if settings.get("tensorboard"):
        (file,) = (folder.path / "tensorboard").iterdir()
        assert b"train/loss" in file.read_bytes()
        assert b"dev/" in file.read_bytes()


def test_a_folder_that_is_there_is_not_overwritten(run, tmp_path):
    folder, _ = run
    with pytest.raises(OptionError, match="is a run already: seqloom train --resume"):
        trained(folder.path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(OptionError, match="is not a run"):
        trained(tmp_path / "mine")


def test_batches_are_of_tokens_or_of_sentences(tmp_path):
    with pytest.raises(OptionError, match="not both"):
        trained(tmp_path / "run", {"train": {"batch_tokens": 100}})


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
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
    assert "to go on: seqloom train --resume" in rest
    update = load_checkpoint(tmp_path / "r" / "checkpoints" / "last.pt")["standing"]["update"]
    assert update > 0
    assert len(seqloom.load(tmp_path / "r").predict(["afk"])) == 1


def test_bfloat16_trains_or_is_refused_with_the_reason(tmp_path):
    """In a process of its own, as it dies on machines that claim instructions which they do not have."""
    code = f"""
from pathlib import Path
from tests.train.small import trained, Lines
folder = trained(Path({str(tmp_path / "run")!r}), {{"train": {{"updates": 24, "precision": "bfloat16"}}}})
losses = [record["loss"] for record in Lines(folder.metrics) if "loss" in record]
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
@pytest.mark.filterwarnings("ignore")  # of what is inside PyTorch's compiler
@pytest.mark.parametrize("preset", ["recurrent", "transformer"])
def test_a_compiled_model_trains_alike(tmp_path, preset):
    settings = {"model": {"preset": preset}, "train": {"updates": 6}}
    plain = trained(tmp_path / "plain", settings)
    compiled = trained(tmp_path / "compiled", merge(settings, {"train": {"compile": True}}))
    for one, other in zip(Lines(plain.metrics), Lines(compiled.metrics), strict=True):
        if "loss" in one:
            assert other["loss"] == pytest.approx(one["loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("loss", "norm", "says"),
    [
        (math.nan, 1.0, "is not a number"),
        (1.0, math.inf, "has a gradient that is not a number"),
        (99.0, 1.0, "diverges: it is 99.0, and guessing gives 2.3"),
    ],
)
def test_what_went_wrong_is_said_with_advice(loss, norm, says):
    loop = SimpleNamespace(
        judge=SimpleNamespace(symbols=10), standing=SimpleNamespace(update=6), folder=SimpleNamespace(path="runs/x")
    )
    with pytest.raises(TrainingError, match=says) as raised:
        Loop._check(loop, loss, torch.tensor(norm))
    assert "update 7" in str(raised.value)
    assert "lower train.optimiser.rate" in str(raised.value)
    Loop._check(loop, 2.0, torch.tensor(1.0))


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"epochs": 1}, "leaves nothing of 5 steps"), ({"updates": None, "epochs": None}, "would have no end")],
)
def test_a_run_that_can_not_go_on_like_this_stays_as_it_was(tmp_path, changes, says):
    """Its configuration was overwritten first, after which it could not go on at all."""
    folder = trained(tmp_path / "run", {"train": {"schedule": {"name": "cosine", "warmup": 6}}})
    before = {path: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}
    with pytest.raises(OptionError, match=says):
        resume(folder.path, {"train": changes}, display=Display())
    assert {path: path.read_bytes() for path in folder.path.iterdir() if path.is_file()} == before


def test_a_run_that_lost_patience_can_be_lengthened(tmp_path):
    """It stopped again at once. A kill right after it has begun to go on does not bring that back."""
    still = {"name": "sgd", "rate": 1e-12}
    folder = trained(tmp_path / "run", {"train": {"updates": 100, "patience": 2, "optimiser": still}})
    assert evaluations(folder)[-1]["update"] == 12
    resume(folder.path, {}, display=Display())
    assert evaluations(folder)[-1]["update"] == 12
    resume(folder.path, {"train": {"updates": 200}}, display=Display())
    assert [record["update"] for record in evaluations(folder)] == [4, 8, 12, 16, 20]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Loop, "run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            resume(folder.path, {"train": {"epochs": 300}}, display=Display())
    resume(folder.path, {}, display=Display())
    assert evaluations(folder)[-1]["update"] == 28


def test_a_run_without_its_corpus_can_not_go_on_and_says_so(tmp_path):
    folder = trained(tmp_path / "run")
    shutil.rmtree(folder.data)
    with pytest.raises(OptionError, match="run/data, the compiled corpus of this run, is gone: it can't go on"):
        resume(folder.path, {}, display=Display())
    assert isinstance(seqloom.load(folder.path).predict("afk"), str)


@pytest.mark.parametrize(
    ("part", "longest", "says"),
    [
        ("encoder", 2, "a source of the train data has 3 tokens, and the model has positions for 2"),
        ("decoder", 3, "a target of the train data has 3 tokens, and the model has positions for 2"),
        ("encoder", 3, None),
        ("decoder", 4, None),
    ],
)
def test_too_few_learned_positions_are_refused_before_training(tmp_path, part, longest, says):
    """Training stopped at the first batch that was longer, and could not be resumed."""
    model = {"preset": "transformer", part: {"positions": {"name": "learned", "longest": longest}}}
    if says is None:
        assert trained(tmp_path / "run", {"model": model}).finished
        return
    with pytest.raises(OptionError, match=says) as raised:
        trained(tmp_path / "run", {"model": model})
    assert f"model.{part}.positions.longest={longest + 1}" in str(raised.value)
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_what_a_kill_left_is_removed_by_a_new_run_and_by_one_that_goes_on(tmp_path):
    out = tmp_path / "run"
    for go_on in (trained, lambda path: resume(path, {}, display=Display())):
        (out / ".data.x1y2").mkdir(parents=True)
        (out / ".data.x1y2" / "train.arrow").write_text("half of it")
        (out / ".config.yaml.77.part").write_text("half of it")
        go_on(out)
        assert not [path.name for path in out.iterdir() if path.name.startswith(".")]


def test_timing_goes_on_where_a_run_does(tmp_path):
    """What came after the checkpoint was there twice, and tokens from before it counted into the time after it."""
    folder = trained(tmp_path / "run", {"train": {"updates": 5, "checkpoint_seconds": 1e-9}})
    Lines(folder.timing).append({"update": 6, "seconds": 1.0, "target_tokens": 64, "waited_for_batches": 0.0})
    resume(folder.path, {"train": {"updates": 8}}, display=Display())
    timed = [(lap["update"], lap["target_tokens"]) for lap in Lines(folder.timing)]
    assert timed == [(2, 128), (4, 128), (6, 64), (8, 128)]


def test_the_rate_is_the_schedules(tmp_path):
    settings = {"updates": 12, "log_every": 1, "optimiser": {"name": "adam", "rate": 0.01}}
    folder = trained(tmp_path / "run", {"train": {**settings, "schedule": {"name": "constant", "warmup": 4}}})
    rates = [record["rate"] for record in Lines(folder.metrics) if "rate" in record]
    assert rates == pytest.approx([0.0025, 0.005, 0.0075] + [0.01] * 9)


def logged(out, sampling):
    """Loss and share of gold tokens of each of eight updates."""
    settings = {"updates": 8, "evaluate_every": 8, "log_every": 1, "sampling": sampling}
    records = [record for record in Lines(trained(out, {"train": settings}).metrics) if "loss" in record]
    return [record["loss"] for record in records], [record.get("gold") for record in records]


def test_the_share_of_gold_tokens_is_what_its_decay_says_and_what_is_fed(tmp_path):
    """Pure teacher forcing up to the fifth update, from there on the model's own tokens."""
    forced, none = logged(tmp_path / "forced", None)
    assert none == [None] * 8
    losses, gold = logged(tmp_path / "linear", {"name": "linear", "steps": 2, "minimum": 0.25, "start": 5})
    assert gold == [1.0] * 5 + [0.5, 0.25, 0.25]
    assert losses[:5] == forced[:5]
    assert all(one != other for one, other in zip(losses[5:], forced[5:], strict=True))


def test_what_is_fed_is_the_best_token_or_a_drawn_one(tmp_path):
    best, drawn = (
        logged(tmp_path / feed, {"name": "constant", "gold": 0.0, "feed": feed})[0] for feed in ("argmax", "sample")
    )
    assert best[0] != drawn[0]


@pytest.mark.parametrize(
    ("metric", "factors"),
    [("exact", [1, 1, 1, 1 / 2, 1 / 2, 1 / 4]), ("loss", [1, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 16])],
)
def test_a_plateau_is_one_of_the_metric_that_decides(tmp_path, monkeypatch, metric, factors):
    """The same values in a row, where the higher is better, and where the lower is."""
    values = iter([1.0, 2.0, 2.0, 3.0, 1.0, 1.0])
    monkeypatch.setattr(Judge, "__call__", lambda *_: Judgement({metric: next(values)}, 0, ("a", "b", "c")))
    settings = {
        "log_every": 1,
        "evaluate_every": 2,
        "metric": metric,
        "optimiser": {"name": "adam", "rate": 0.01},
        "schedule": {"name": "plateau", "patience": 1, "decay": 0.5},
    }
    folder = trained(tmp_path / "run", {"train": settings})
    rates = [record["rate"] for record in Lines(folder.metrics) if "rate" in record]
    assert rates == pytest.approx([0.01 * factor for factor in factors for _ in range(2)])


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
def test_the_validation_loss_decides_while_the_metric_is_stuck(tmp_path, monkeypatch, values, best):
    given = iter(values)
    found = ({"exact": value, "loss": loss} for value, loss in given)
    monkeypatch.setattr(Judge, "__call__", lambda *_: Judgement(next(found), 0, ("a", "b", "c")))
    shown = io.StringIO()
    folder = trained(tmp_path / "run", {"train": {"evaluate_every": 2}}, display=PlainDisplay(shown))
    assert load_checkpoint(folder.checkpoint)["standing"]["best"][0][1] == best
    assert ("until it changes, the validation loss selects" in shown.getvalue()) == (best != 4)
    assert ("exact changes now" in shown.getvalue()) == (best == 12)


def test_the_validation_loss_breaks_ties_in_short_runs(tmp_path, monkeypatch):
    """Two validations are too few to call a metric stuck; the better weights are kept all the same."""
    found = iter([Judgement({"exact": 0.0, "loss": loss}, 0, ("a", "b", "c")) for loss in (3.0, 2.0)])
    monkeypatch.setattr(Judge, "__call__", lambda *_: next(found))
    shown = io.StringIO()
    folder = trained(tmp_path / "run", {"train": {"evaluate_every": 6}}, display=PlainDisplay(shown))
    assert load_checkpoint(folder.checkpoint)["standing"]["best"] == [(0.0, 12)]
    assert "exact had the same value in all 2 validations" in shown.getvalue()


def test_the_log_shows_pairs_as_the_model_sees_them(run):
    _, shown = run
    assert "a·f·k  →  k·f·a" in shown
    assert shown.count("  →  ") == 3
    assert "--set data.target=" in shown


def test_a_run_that_was_still_improving_says_how_to_continue(tmp_path, monkeypatch):
    for last, says in ((60.0, True), (40.0, False)):
        found = iter([10.0, 50.0, last])
        monkeypatch.setattr(Judge, "__call__", lambda *_: Judgement({"exact": next(found)}, 0, ("a", "b", "c")))  # noqa: B023
        shown = io.StringIO()
        folder = trained(tmp_path / f"{last}", display=PlainDisplay(shown))
        continues = f"seqloom train --resume {folder.path} --set train.updates=24"
        assert (continues in shown.getvalue()) == says


def test_a_moving_average_is_what_is_kept(tmp_path):
    """After two updates: d = 1/10, then 2/11, of the weights before, and after each."""
    plain = {"evaluate_every": 2, "schedule": "constant", "optimiser": {"name": "sgd", "rate": 1.0}}
    plain["moving_average"] = 0
    none = {**plain, "optimiser": {"name": "sgd", "rate": 1e-12}, "updates": 1}
    runs = {"w0": none, "w1": {**plain, "updates": 1}, "w2": {**plain, "updates": 2}}
    runs["mean"] = {**plain, "updates": 2, "moving_average": 0.9}
    found = {name: load_weights(trained(tmp_path / name, {"train": train}).weights) for name, train in runs.items()}
    for name, mean in found["mean"].items():
        first = 1 / 10 * found["w0"][name] + 9 / 10 * found["w1"][name]
        torch.testing.assert_close(mean, 2 / 11 * first + 9 / 11 * found["w2"][name], rtol=1e-4, atol=1e-5)
