"""Minutes of training until BLEU on the validation set reaches a target, compared with JoeyNMT 2.3.0.

The data is Multi30k, German to English; model, sizes and vocabularies are those of ``train_corpus.py``. Both toolkits
use the same BPE tokens, batch size, dropout, gradient clipping, and Adam with the same constant learning rate. Both
predict the validation set with greedy search at the same interval, and sacreBLEU computes BLEU of the detokenized
words. Each toolkit uses its default initialization and validates its default weights: seqloom an exponential moving
average, which JoeyNMT does not have, JoeyNMT the current weights. How fast a model learns to attend depends on batch
size and learning rate. Each combination is a separate case, so that each toolkit can be compared at its best.

Time is measured from the start of the process to the end of the validation that reaches the target. It includes
imports, reading, training and all validations. In each round the toolkits take turns, every other round in reverse
order; round i has seed i. Every figure is the median over the rounds. Results are written after every round.

    .venv/bin/python benchmarks/time_to_quality.py DATA                    # half an hour or more per round
    .venv/bin/python benchmarks/time_to_quality.py DATA --batches 32 --lrs 2e-3 --out trial
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from harness import peers
from harness.driver import Worker, interleaved
from harness.environment import BENCHMARKS
from harness.results import RESULTS, Row, machine, table, write
from rich.console import Console
from train_corpus import CASES, prepare_multi30k

PEER = "joeynmt 2.3.0"


@dataclass(frozen=True)
class Race(Row):
    """Minutes and updates until the target; ratio: peer_minutes / ours_minutes; above 1, seqloom is faster."""

    case: str
    peer: str
    batch: int
    lr: float
    target_bleu: float
    ours_minutes: float
    peer_minutes: float
    ratio: float
    ours_updates: float
    peer_updates: float

    columns: ClassVar[Mapping[str, str]] = {
        "case": "", "peer": "", "batch": "d", "lr": "g", "BLEU": ".1f", "ours, min": ".1f",
        "peer’s, min": ".1f", "ratio": ".2f", "our updates": ",.0f", "peer’s updates": ",.0f",
    }  # fmt: skip


def race(
    data: Path,
    *,
    batch: int,
    lr: float,
    target_bleu: float,
    every: int,
    max_updates: int,
    rounds: int,
    threads: int,
    console: Console,
    after_round: Callable[[Race, int], None],
) -> Race:
    """Train both toolkits until they reach the target, and return the record.

    max_updates: updates after which a toolkit has failed.
    after_round: called with the record so far and its number of rounds.
    """
    minutes: dict[str, list[float]] = {"seqloom": [], "joeynmt": []}
    updates: dict[str, list[int]] = {"seqloom": [], "joeynmt": []}

    def so_far() -> Race:
        ours, theirs = median(minutes["seqloom"]), median(minutes["joeynmt"])
        return Race(
            "multi30k-de-en",
            PEER,
            batch,
            lr,
            target_bleu,
            round(ours, 2),
            round(theirs, 2),
            round(theirs / ours, 3),
            median(updates["seqloom"]),
            median(updates["joeynmt"]),
        )

    with tempfile.TemporaryDirectory() as home:
        corpus = Path(home) / "corpus"
        corpus.mkdir()
        prepare_multi30k(data, corpus, dev="val")

        def turn(name: str, python: Path | str, number: int) -> float:
            """Return the minutes until the target."""
            begin = time.monotonic()
            with (
                tempfile.TemporaryDirectory(dir=home) as folder,
                Worker(python, BENCHMARKS / f"time_to_quality_{name}.py", threads=threads) as worker,
            ):
                reached: dict[str, Any] = worker.ask(
                    "train",
                    corpus=str(corpus),
                    folder=f"{folder}/run",
                    sizes=CASES[0].sizes | {"batch": batch, "rate": lr},
                    seed=number + 1,
                    goal=target_bleu,
                    every=every,
                    most=max_updates,
                )
            taken = (time.monotonic() - begin) / 60
            shown = ", ".join(f"{bleu:.1f}" for bleu in reached["bleu"])
            run = f"batch size {batch}, learning rate {lr:g}, round {number + 1}: {name}"
            console.print(f"{run} {taken:.1f} minutes, {reached['updates']} updates: {shown}")
            if reached["bleu"][-1] < target_bleu:
                raise RuntimeError(f"{name} did not reach {target_bleu} BLEU in {max_updates} updates")
            minutes[name].append(taken)
            updates[name].append(reached["updates"])
            return taken

        participants = {
            "seqloom": partial(turn, "seqloom", sys.executable),
            "joeynmt": partial(turn, "joeynmt", peers.joeynmt()),
        }
        interleaved(
            participants,
            rounds=rounds,
            warm_up=0,
            progress=lambda: after_round(so_far(), len(minutes["seqloom"])),
        )
    return so_far()


def shown(records: Sequence[Race]) -> str:
    """Format the table, and compare the toolkits, each with its best batch size and learning rate."""
    ours, theirs = min(r.ours_minutes for r in records), min(r.peer_minutes for r in records)
    best = f"each toolkit with its best batch size and learning rate: {ours:.1f} and {theirs:.1f} minutes"
    return f"{table(records)}\n\n{best}, a ratio of {theirs / ours:.2f}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Minutes of training until BLEU on the validation set reaches a target."
    )
    parser.add_argument("data", type=Path, help="data directory with multi30k/{train,val}.{de,en}")
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[32, 64], help="batch sizes in sentences (%(default)s)"
    )
    parser.add_argument("--lrs", type=float, nargs="+", default=[2e-3], help="learning rates (%(default)s)")
    parser.add_argument("--target-bleu", type=float, default=25.0, help="BLEU on the validation set (%(default)s)")
    parser.add_argument("--every", type=int, default=200, help="updates between validations (%(default)s)")
    parser.add_argument("--max-updates", type=int, default=10_000, help="updates before giving up (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="number of rounds (%(default)s)")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads per process (%(default)s)"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results (%(default)s)")
    options = parser.parse_args()
    for name in (f"multi30k/{part}.{language}" for part in ("train", "val") for language in ("de", "en")):
        if not (options.data / name).is_file():
            parser.error(f"{options.data / name} not found: give the directory that contains multi30k/")
    records: list[Race] = []
    where = machine(options.threads)

    def keep(race: Race, rounds: int) -> None:
        """Write the results so far."""
        text = f"{where}; medians of {rounds} round{'s' * (rounds > 1)}\n\n{shown([*records, race])}"
        write("time_to_quality", [*records, race], text, options.out)

    for batch, lr in product(options.batches, options.lrs):
        records.append(
            race(
                options.data,
                batch=batch,
                lr=lr,
                target_bleu=options.target_bleu,
                every=options.every,
                max_updates=options.max_updates,
                rounds=options.rounds,
                threads=options.threads,
                console=Console(stderr=True),
                after_round=keep,
            )
        )
    print((options.out / "time_to_quality.txt").read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
