"""What computes fastest: a trained run answered by PyTorch, and by the engines it was exported for.

    .venv/bin/python benchmarks/engines.py runs/de-en --data DATA/multi30k/test_2016_flickr.{de,en}

The run's own search on the given sources, in batches of 64 sentences of like length and one by one (the first 64), in
sentences per second; from text to text, so that cutting and joining words counts. Then the metric of the whole file,
for each engine. Everything is interleaved: in each round each engine has its turn in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import ClassVar

from harness.driver import Worker, interleaved
from harness.environment import BENCHMARKS
from harness.results import RESULTS, Row, machine, table, write

from seqloom.export import ENGINES

SINGLE = 64
"""How many sentences are answered one by one."""


@dataclass(frozen=True)
class Answering(Row):
    """An engine's speed beside PyTorch's, and its quality."""

    engine: str
    batch: int
    sentences_per_second: float
    ratio: float
    metric: str
    value: float

    columns: ClassVar[Mapping[str, str]] = {
        "engine": "", "batch": "d", "sentences/s": ",.1f", "ratio": ".2f", "metric": "", "value": ".2f",
    }  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A run answered by PyTorch and by other engines.")
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--data", nargs=2, type=Path, required=True, help="sources and references, line by line")
    parser.add_argument("--metric", default="{name: bleu, lowercase: true}", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="how many count (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results (%(default)s)")
    options = parser.parse_args()
    engines = ["torch", *ENGINES]
    for engine in ENGINES:
        seqloom("export", str(options.run), "--to", engine)
    values = {}
    for engine in engines:
        chosen = [] if engine == "torch" else ["--engine", engine]
        data = ["--data", *map(str, options.data)]
        answer = seqloom("evaluate", str(options.run), *data, "--metric", options.metric, "--json", *chosen)
        values[engine] = next(iter(json.loads(answer)["metrics"].items()))
    records = []
    for batch in (64, 1):
        with ExitStack() as stack:
            turns = {}
            for engine in engines:
                script = BENCHMARKS / "engines_seqloom.py"
                worker = stack.enter_context(Worker(sys.executable, script, threads=options.threads))
                worker.ask("make", run=str(options.run), engine=engine, sources=str(options.data[0]), batch=batch)
                turns[engine] = worker.turn
            times = interleaved(turns, rounds=options.rounds, warm_up=1)
        ms = {engine: median(taken) for engine, taken in times.items()}
        records += [
            Answering(
                engine,
                batch,
                round(SINGLE / ms[engine] * 1e3, 2),
                round(ms["torch"] / ms[engine], 3),
                values[engine][0],
                round(values[engine][1]["value"], 2),
            )
            for engine in engines
        ]
    text = f"{machine(options.threads)}; medians of {options.rounds} rounds\n\n{table(records)}"
    print(text)
    write("engines", records, text, options.out)


def seqloom(*arguments: str) -> str:
    """A command of seqloom's."""
    return subprocess.run(
        [sys.executable, "-m", "seqloom", *arguments], stdout=subprocess.PIPE, check=True, text=True
    ).stdout


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
