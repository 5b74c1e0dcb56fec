"""Inference speed of trained runs in PyTorch and in the engines that they can be exported to.

    .venv/bin/python benchmarks/engines.py runs/a runs/b --data DATA/multi30k/test_2016_flickr.{de,en}

Measures sentences per second of the run's own search (with ``refill`` if CTranslate2 is one of the engines, so that
all engines search alike) for three batch sizes: 512 sentences in file order, as many as ``seqloom predict`` reads at
once and divides into batches by itself; 64 sentences of similar length; and single sentences. Tokenization and
detokenization are included. For the whole file, it also reports the share of outputs that equal PyTorch's, and the
metric. Measurements are interleaved: in each round, all engines take turns, each in a separate process.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import ClassVar

from harness.driver import Worker, interleaved
from harness.environment import BENCHMARKS
from harness.results import RESULTS, Row, machine, table, write

from seqloom.export import ENGINES

BATCHES = {512: 512, 64: 64, 1: 64}
"""Sentences per round, by batch size."""


@dataclass(frozen=True)
class EngineSpeed(Row):
    """Speed and quality of an engine, compared with PyTorch.

    ratio: PyTorch's time divided by the engine's time; above 1, the engine is faster.
    same: share of outputs that equal PyTorch's.
    """

    run: str
    engine: str
    batch: int
    sentences_per_second: float
    ratio: float
    same: float
    metric: str
    value: float

    columns: ClassVar[Mapping[str, str]] = {
        "run": "", "engine": "", "batch": "d", "sentences/s": ",.1f", "ratio": ".2f", "same outputs": ".1%",
        "metric": "", "value": ".2f",
    }  # fmt: skip


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Inference speed of runs in PyTorch and other engines.")
    parser.add_argument("runs", nargs="+", type=Path, help="run directories")
    parser.add_argument("--data", nargs=2, type=Path, required=True, help="sources and references, line-aligned")
    parser.add_argument("--metric", default="{name: bleu, lowercase: true}", help="metric (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (%(default)s)")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads per process (%(default)s)"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results (%(default)s)")
    options = parser.parse_args()
    lines = len(options.data[0].read_text(encoding="utf-8").splitlines())
    records = []
    for run in options.runs:
        engines = ["torch", *(engine for engine in ENGINES if exported(run, engine))]
        refill = "ctranslate2" in engines
        measured = {engine: whole_file(run, engine, options.data, options.metric, refill) for engine in engines}
        for batch in BATCHES:
            ms = speeds(run, engines, options.data[0], batch, refill, rounds=options.rounds, threads=options.threads)
            for engine in engines:
                outputs, (metric, value) = measured[engine]
                alike = [a == b for a, b in zip(outputs, measured["torch"][0], strict=True)]
                speed, ratio = min(BATCHES[batch], lines) / ms[engine] * 1e3, ms["torch"] / ms[engine]
                same = sum(alike) / len(alike)
                records.append(
                    EngineSpeed(
                        run.name, engine, batch, round(speed, 2), round(ratio, 3), same, metric, round(value, 2)
                    )
                )
    text = f"{machine(options.threads)}; medians of {options.rounds} rounds\n\n{table(records)}"
    print(text)
    write("engines", records, text, options.out)


def exported(run: Path, engine: str) -> bool:
    """Export a run; return whether the engine supports it. If it does not, the command prints the reason."""
    try:
        seqloom("export", str(run), "--to", engine)
    except subprocess.CalledProcessError:
        return False
    return True


def whole_file(
    run: Path, engine: str, data: Sequence[Path], metric: str, refill: bool
) -> tuple[list[str], tuple[str, float]]:
    """Return the outputs for all sources, and the label and value of a metric."""
    chosen = [] if engine == "torch" else ["--engine", engine]
    chosen += ["--refill", "true"] if refill else []
    outputs = seqloom("predict", str(run), *chosen, stdin=data[0].read_text(encoding="utf-8")).splitlines()
    found = seqloom("evaluate", str(run), *chosen, "--data", *map(str, data), "--metric", metric, "--json")
    ((label, one),) = json.loads(found)["metrics"].items()
    return outputs, (label, one["value"])


def speeds(
    run: Path, engines: Sequence[str], sources: Path, batch: int, refill: bool, *, rounds: int, threads: int
) -> dict[str, float]:
    """Median milliseconds per round, by engine."""
    with ExitStack() as stack:
        turns = {}
        for engine in engines:
            worker = stack.enter_context(Worker(sys.executable, BENCHMARKS / "engines_seqloom.py", threads=threads))
            worker.ask(
                "make",
                run=str(run),
                engine=engine,
                sources=str(sources),
                batch=batch,
                sentences=BATCHES[batch],
                refill=refill,
            )
            turns[engine] = partial(worker.turn, untimed=1, timed=1)  # a turn has many sentences, so one is enough
        times = interleaved(turns, rounds=rounds, warm_up=1)
    return {engine: median(taken) for engine, taken in times.items()}


def seqloom(*arguments: str, stdin: str | None = None) -> str:
    """Run a command of seqloom, and return its output."""
    program = [sys.executable, "-m", "seqloom", *arguments]
    return subprocess.run(program, input=stdin, stdout=subprocess.PIPE, check=True, text=True).stdout


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
