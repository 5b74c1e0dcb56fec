"""A run that is killed and resumed gives bit-identical results to an uninterrupted run."""

import errno
import multiprocessing
import os
import signal
from pathlib import Path

import pytest
import torch

import seqloom.files
from seqloom.errors import ConfigError, WriteError
from seqloom.train.checkpoint import load_checkpoint
from seqloom.train.display import Display
from seqloom.train.folder import JsonlLog, RunFolder
from seqloom.train.run import resume
from tests.train import killed

PROCESSES = multiprocessing.get_context("forkserver")  # PyTorch is imported once for all of them
PROCESSES.set_forkserver_preload([killed.__name__])
MOMENTS = [("write", 2), ("backward", 9), ("rename", 8), ("write", 15), ("backward", 11), ("rename", 3), ("never", 0)]


def run(folder: Path, moment: str = "never", number: int = 0) -> int:
    process = PROCESSES.Process(target=killed.main, args=(folder, moment, number))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert run(folder) == 0
    return folder


def test_killed_and_resumed_run_is_bit_identical(whole, tmp_path):
    folder = tmp_path / "run"
    codes = [run(folder, *moment) for moment in MOMENTS]
    assert codes == [-signal.SIGKILL] * (len(MOMENTS) - 1) + [0]
    for name in ("model.safetensors", "metrics.jsonl", "fields.json"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name
    kept = [sorted(p.name for p in (f / "checkpoints").glob("[0-9]*.safetensors")) for f in (folder, whole)]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 2


def test_killed_run_has_several_epochs_and_validations(whole):
    """Otherwise the test above would prove nothing."""
    records = list(JsonlLog(whole / "metrics.jsonl"))
    assert [r["update"] for r in records if "dev" in r] == [10, 20, 30, 40]
    assert records[-1]["final"]
    assert records[-2]["epoch"] >= 4


def test_moved_run_resumes_with_new_limits(whole, tmp_path):
    """A run folder can be moved, and a finished run can be continued."""
    folder = tmp_path / "moved"
    os.rename(whole.parent / "run", folder)
    try:
        torch.set_num_threads(1)
        resume(folder, {"train": {"updates": 45, "patience": 0}}, display=Display())
        records = list(JsonlLog(folder / "metrics.jsonl"))
        assert records[-1]["update"] == 45
        resume(
            folder, {"train": {"epochs": 10}}, display=Display()
        )  # 80 pairs, 2 × 8 per update: 5 updates per epoch
        assert list(JsonlLog(folder / "metrics.jsonl"))[-1]["update"] == 50
        with pytest.raises(ConfigError, match=r"train\.clip_grad_norm can't be changed"):
            resume(folder, {"train": {"clip_grad_norm": 2.0}}, display=Display())
    finally:
        os.rename(folder, whole.parent / "run")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES])
def test_failed_write_keeps_previous_checkpoint(whole, monkeypatch, error):
    """The disk fills up while the third checkpoint is written."""
    before = RunFolder(whole).checkpoint.read_bytes()
    fsync, checkpoints = os.fsync, []

    def fail(number):
        if "last.pt" in os.readlink(f"/proc/self/fd/{number}"):
            checkpoints.append(RunFolder(whole).checkpoint.read_bytes())
            if len(checkpoints) == 3:
                raise OSError(error, os.strerror(error))
        fsync(number)

    monkeypatch.setattr(seqloom.files.os, "fsync", fail)
    with pytest.raises(WriteError, match=os.strerror(error)):
        resume(whole, {"train": {"updates": 60, "patience": 0}}, display=Display())
    assert RunFolder(whole).checkpoint.read_bytes() == checkpoints[-1] != before
    load_checkpoint(RunFolder(whole).checkpoint)
    assert not list(whole.rglob(".*.part"))
