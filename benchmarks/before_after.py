"""Compare two versions of seqloom on the cases of ``train_step.py``, ``decode.py`` and ``train_corpus.py``.

Shows whether a change costs time. The older version is checked out into a temporary directory; each version runs its
own workers, and both take turns in one run. The ratio of a case is the time before divided by the time after, both
medians over the rounds: above 1, the newer version is faster.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import decode
import numpy as np
import train_corpus
import train_step
from harness.driver import Turn, Worker, interleaved
from harness.environment import BENCHMARKS
from harness.results import machine

ROOT = BENCHMARKS.parent
SIDES = ("source", "target")
Trees = Mapping[str, Path]
"""Source trees of the two versions, by name: before and after."""


def worker(tree: Path, script: str, threads: int) -> Worker:
    """Start a worker of a version; it imports the package of that version."""
    path = tree / "benchmarks" / script
    return Worker(sys.executable, path, threads=threads, variables={"PYTHONPATH": str(tree / "src")})


def train_step_turns(
    case: train_step.Case, trees: Trees, rounds: int, threads: int, stack: ExitStack
) -> dict[str, Turn]:
    """Training steps on prepared batches, in milliseconds."""
    file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "batches.npz"
    made = enumerate(train_step.batches(case.data, rounds))
    arrays: dict[str, Any] = {f"{side}_{n}": ids for n, pair in made for side, ids in zip(SIDES, pair, strict=True)}
    np.savez(file, allow_pickle=False, **arrays)
    sizes = {"model": case.model, "vocabulary": case.data.vocabulary, "sizes": train_step.SIZES}
    return _ready(trees, "train_step_seqloom.py", threads, stack, lambda: {**sizes, "batches": str(file)})


def decode_turns(case: decode.Case, trees: Trees, rounds: int, threads: int, stack: ExitStack) -> dict[str, Turn]:
    """Searches on prepared batches, in milliseconds."""
    made = decode.sources(case.model.data, case.batch, rounds)

    def description() -> dict[str, Any]:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        return decode.describe(case.model, made, beam=case.beam, folder=folder) | {"steps": case.model.steps}

    return _ready(trees, "decode_seqloom.py", threads, stack, description)


def _ready(
    trees: Trees, script: str, threads: int, stack: ExitStack, description: Callable[[], dict[str, Any]]
) -> dict[str, Turn]:
    workers = {name: stack.enter_context(worker(tree, script, threads)) for name, tree in trees.items()}
    for one in workers.values():
        one.ask("make", **description())
    return {name: one.turn for name, one in workers.items()}


def train_corpus_turns(
    case: train_corpus.Case, data: Path, trees: Trees, threads: int, stack: ExitStack
) -> dict[str, Turn]:
    """Training on a corpus, in milliseconds per target token, with a new process for every turn."""
    home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    corpus = home / "corpus"
    corpus.mkdir()
    pairs = case.prepare(data, corpus)
    span = case.span or -(-pairs // case.sizes["batch"])

    def turn(tree: Path, number: int) -> float:
        with (
            tempfile.TemporaryDirectory(dir=home) as folder,
            worker(tree, "train_corpus_seqloom.py", threads) as one,
        ):
            asked = {"case": case.name, "corpus": str(corpus), "folder": f"{folder}/run", "sizes": case.sizes}
            done = one.ask("train", **asked, seed=number + 1, warm_up=case.warm_up, span=span)
        return float(done["seconds"] / done["tokens"] * 1e3)

    return {name: partial(turn, tree) for name, tree in trees.items()}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Compare the speed of two versions of seqloom in one run.")
    parser.add_argument("base", help="older version: a commit, a tag or a branch")
    parser.add_argument("--data", type=Path, help="data directory of train_corpus.py, which is skipped without it")
    parser.add_argument(
        "--cases", nargs="+", metavar="TEXT", default=[""], help="run only cases whose name contains one of these"
    )
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds (%(default)s)")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads per process (%(default)s)"
    )
    options = parser.parse_args()
    rounds, threads = options.rounds, options.threads
    prepared: dict[str, Callable[[Trees, ExitStack], dict[str, Turn]]] = {}
    for step in (train_step.Case(model, data) for model in train_step.MODELS for data in train_step.DATA):
        prepared[f"train_step {step}"] = lambda t, s, c=step: train_step_turns(c, t, rounds, threads, s)
    for search in decode.CASES:
        prepared[f"decode {search}"] = lambda t, s, c=search: decode_turns(c, t, rounds, threads, s)
    for corpus in train_corpus.CASES if options.data else ():
        prepared[f"train_corpus {corpus.name}"] = lambda t, s, c=corpus: train_corpus_turns(
            c, options.data, t, threads, s
        )
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(before), options.base], check=True)
        try:
            print(f"{machine(threads)}; before: {options.base}; medians of {rounds} rounds", flush=True)
            for name, prepare in prepared.items():
                if any(text in name for text in options.cases):
                    with ExitStack() as stack:
                        turns = prepare({"before": before, "after": ROOT}, stack)
                        warm_up = 0 if name.startswith("train_corpus") else 2  # its workers have their own warmup
                        times = interleaved(turns, rounds=rounds, warm_up=warm_up)
                    old, new = median(times["before"]), median(times["after"])
                    ratios.setdefault(name.split()[0], []).append(old / new)
                    print(f"{name:42} before {old:10.3f}  after {new:10.3f}  ratio {old / new:5.3f}", flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(before)], check=True)
    for name, some in ratios.items():
        print(f"{name:42} geometric mean of {len(some)} ratios {geometric_mean(some):5.3f}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
