"""How soon a model is good: minutes of training until BLEU on dev reaches a goal, beside JoeyNMT 2.3.0.

Multi30k, German to English; the model, its sizes and the pieces of its vocabulary are those of ``train_corpus.py``.
Both toolkits read the same pieces, as many sentences a batch, with the same dropout, Adam at the same constant rate
and the same clipping, and both answer dev greedily after every so many updates. What is judged is the same, too:
sacreBLEU's BLEU of the pieces joined to words. Each begins with the weights that it draws when nothing is said, and
judges those that it keeps then: seqloom a moving average, which JoeyNMT does not have, JoeyNMT the last ones. How
soon a model finds where to attend depends on the batches and the rate, so there is a case for each of several:
neither toolkit has to run with those that suit the other.

The clock runs from the start of the process to the end of the evaluation that reached the goal: imports, reading,
training, and every evaluation on the way. In each round the toolkits have their turn, one at a time; round i has
seed i, and every other round goes backwards. A figure is the median over the rounds. Results are written after every
round.

    .venv/bin/python benchmarks/time_to_quality.py DATA                    # half an hour or more a round
    .venv/bin/python benchmarks/time_to_quality.py DATA --batches 32 --rates 2e-3 --out trial
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
from train_corpus import CASES, cut_multi30k

PEER = "joeynmt 2.3.0"


@dataclass(frozen=True)
class Race(Row):
    """Who reached the goal when; ratio: how many times as long the peer took."""

    case: str
    peer: str
    batch: int
    rate: float
    goal: float
    ours_minutes: float
    peer_minutes: float
    ratio: float
    ours_updates: float
    peer_updates: float

    columns: ClassVar[Mapping[str, str]] = {
        "case": "", "peer": "", "batch": "d", "rate": "g", "BLEU": ".1f", "ours, min": ".1f",
        "peer’s, min": ".1f", "ratio": ".2f", "our updates": ",.0f", "peer’s updates": ",.0f",
    }  # fmt: skip


def race(
    data: Path,
    *,
    batch: int,
    rate: float,
    goal: float,
    every: int,
    most: int,
    rounds: int,
    threads: int,
    console: Console,
    after_round: Callable[[Race, int], None],
) -> Race:
    """The record; ``most``: updates after which a toolkit has failed.

    after_round: called with the record so far, and the number of rounds it is of.
    """
    minutes: dict[str, list[float]] = {"seqloom": [], "joeynmt": []}
    updates: dict[str, list[int]] = {"seqloom": [], "joeynmt": []}

    def so_far() -> Race:
        ours, theirs = median(minutes["seqloom"]), median(minutes["joeynmt"])
        return Race(
            "multi30k-de-en",
            PEER,
            batch,
            rate,
            goal,
            round(ours, 2),
            round(theirs, 2),
            round(theirs / ours, 3),
            median(updates["seqloom"]),
            median(updates["joeynmt"]),
        )

    with tempfile.TemporaryDirectory() as home:
        corpus = Path(home) / "corpus"
        corpus.mkdir()
        cut_multi30k(data, corpus, dev="val")

        def turn(name: str, python: Path | str, number: int) -> float:
            """Minutes until the goal."""
            begin = time.monotonic()
            with (
                tempfile.TemporaryDirectory(dir=home) as folder,
                Worker(python, BENCHMARKS / f"time_to_quality_{name}.py", threads=threads) as worker,
            ):
                reached: dict[str, Any] = worker.ask(
                    "train",
                    corpus=str(corpus),
                    folder=f"{folder}/run",
                    sizes=CASES[0].sizes | {"batch": batch, "rate": rate},
                    seed=number + 1,
                    goal=goal,
                    every=every,
                    most=most,
                )
            taken = (time.monotonic() - begin) / 60
            shown = ", ".join(f"{bleu:.1f}" for bleu in reached["bleu"])
            which = f"batches of {batch}, rate {rate:g}, round {number + 1}: {name}"
            console.print(f"{which} {taken:.1f} minutes, {reached['updates']} updates: {shown}")
            if reached["bleu"][-1] < goal:
                raise RuntimeError(f"{name} did not reach {goal} BLEU in {most} updates")
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
    """The table, and how the toolkits compare where each has what suits it best."""
    ours, theirs = min(r.ours_minutes for r in records), min(r.peer_minutes for r in records)
    best = f"each with the batches and the rate that suit it best: {ours:.1f} and {theirs:.1f} minutes"
    return f"{table(records)}\n\n{best}, a ratio of {theirs / ours:.2f}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Minutes of training until dev BLEU reaches a goal.")
    parser.add_argument("data", type=Path, help="folder with multi30k/{train,val}.{de,en}")
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 64], help="sentences (%(default)s)")
    parser.add_argument("--rates", type=float, nargs="+", default=[2e-3], help="of learning (%(default)s)")
    parser.add_argument("--goal", type=float, default=25.0, help="BLEU on dev (%(default)s)")
    parser.add_argument("--every", type=int, default=200, help="updates between evaluations (%(default)s)")
    parser.add_argument("--most", type=int, default=10_000, help="updates, then it has failed (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="how many (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results (%(default)s)")
    options = parser.parse_args()
    for name in (f"multi30k/{part}.{language}" for part in ("train", "val") for language in ("de", "en")):
        if not (options.data / name).is_file():
            parser.error(f"there is no {options.data / name}")
    records: list[Race] = []
    where = machine(options.threads)

    def keep(race: Race, rounds: int) -> None:
        """Write what there is."""
        text = f"{where}; medians of {rounds} round{'s' * (rounds > 1)}\n\n{shown([*records, race])}"
        write("time_to_quality", [*records, race], text, options.out)

    for batch, rate in product(options.batches, options.rates):
        records.append(
            race(
                options.data,
                batch=batch,
                rate=rate,
                goal=options.goal,
                every=options.every,
                most=options.most,
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
