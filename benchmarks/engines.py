"""What computes fastest: trained runs answered by PyTorch, and by the engines that they can be exported for.

    .venv/bin/python benchmarks/engines.py runs/a runs/b --data DATA/multi30k/test_2016_flickr.{de,en}

A run's own search on the given sources (with ``refill`` where CTranslate2 is among the engines, so that all do the
same), in sentences per second: 512 at a time as they stand in the file, as many as
``seqloom predict`` takes of one and puts into batches by itself; in batches of 64 of like length; and one by one.
From text to text, so that cutting and joining words counts. Then, of the whole file, the share of answers that are
PyTorch's, and the metric. Everything is interleaved: in each round each engine has its turn in a process of its own.
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
"""How many sentences are answered at a time, and in a round."""


@dataclass(frozen=True)
class Answering(Row):
    """An engine's speed beside PyTorch's, and its quality."""

    run: str
    engine: str
    batch: int
    sentences_per_second: float
    ratio: float
    same: float
    metric: str
    value: float

    columns: ClassVar[Mapping[str, str]] = {
        "run": "", "engine": "", "batch": "d", "sentences/s": ",.1f", "ratio": ".2f", "same answers": ".1%",
        "metric": "", "value": ".2f",
    }  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A run answered by PyTorch and by other engines.")
    parser.add_argument("runs", nargs="+", type=Path, help="the folders of runs")
    parser.add_argument("--data", nargs=2, type=Path, required=True, help="sources and references, line by line")
    parser.add_argument("--metric", default="{name: bleu, lowercase: true}", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="how many count (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results (%(default)s)")
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
                answers, (metric, value) = measured[engine]
                alike = [a == b for a, b in zip(answers, measured["torch"][0], strict=True)]
                speed, ratio = min(BATCHES[batch], lines) / ms[engine] * 1e3, ms["torch"] / ms[engine]
                same = sum(alike) / len(alike)
                records.append(
                    Answering(
                        run.name, engine, batch, round(speed, 2), round(ratio, 3), same, metric, round(value, 2)
                    )
                )
    text = f"{machine(options.threads)}; medians of {options.rounds} rounds\n\n{table(records)}"
    print(text)
    write("engines", records, text, options.out)


def exported(run: Path, engine: str) -> bool:
    """Export a run; tells whether there is such an engine for it. If not, the command has said why."""
    try:
        seqloom("export", str(run), "--to", engine)
    except subprocess.CalledProcessError:
        return False
    return True


def whole_file(
    run: Path, engine: str, data: Sequence[Path], metric: str, refill: bool
) -> tuple[list[str], tuple[str, float]]:
    """The answers to all sources, and a metric of them."""
    chosen = [] if engine == "torch" else ["--engine", engine]
    chosen += ["--refill", "true"] if refill else []
    answers = seqloom("predict", str(run), *chosen, given=data[0].read_text(encoding="utf-8")).splitlines()
    found = seqloom("evaluate", str(run), *chosen, "--data", *map(str, data), "--metric", metric, "--json")
    ((label, one),) = json.loads(found)["metrics"].items()
    return answers, (label, one["value"])


def speeds(
    run: Path, engines: Sequence[str], sources: Path, batch: int, refill: bool, *, rounds: int, threads: int
) -> dict[str, float]:
    """The milliseconds that each engine takes for a round."""
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
            turns[engine] = partial(worker.turn, untimed=1, timed=1)  # many sentences each: long enough
        times = interleaved(turns, rounds=rounds, warm_up=1)
    return {engine: median(taken) for engine, taken in times.items()}


def seqloom(*arguments: str, given: str | None = None) -> str:
    """A command of seqloom's."""
    program = [sys.executable, "-m", "seqloom", *arguments]
    return subprocess.run(program, input=given, stdout=subprocess.PIPE, check=True, text=True).stdout


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
