"""The training step (forward, backward, clip, Adam) beside JoeyNMT's, and beside what the machine could do at most.

Each of four models at embedding 256, hidden 256 and batch 64:

    bilstm       a bidirectional LSTM encoder, a ``luong`` decoder with additive score and input feeding: JoeyNMT's
                 recurrent model
    luong        the preset
    bahdanau     the preset
    transformer  3 layers, 4 heads, feed-forward 1,024, norm before each sub-layer, nothing tied

on three kinds of batches, ids uniform over the vocabulary (what they are has no influence on the time):

    8000/14         vocabulary 8,000, all sentences of 14 tokens a side
    8000/sentences  vocabulary 8,000, lengths drawn like those of real sentences
    60/9            60 symbols, 9 tokens a side

A target's tokens include its END. Lengths like those of sentences are log-normal with a mean of 14 and a standard
deviation of 4.6 on both sides, their logarithms correlated by 0.87, within 4 … 40. That is Multi30k: its 29,000
training pairs, cut into words and punctuation, have English 13.1 ± 4.1 and French 14.9 ± 5.1 tokens, with a
correlation of logarithms of 0.87. A batch is drawn at random and not bucketed by length, so that padding counts.

**JoeyNMT 2.3.0**, in an environment of its own, gets the same ids, and runs its own model, loss and trainer.
Dropout is 0.1 on both sides. In the Transformers it sits in the same places: on embeddings with positions, on
attention's weights, inside and behind every sub-layer. In the recurrent models both have it on embeddings and between
layers; JoeyNMT also drops from the attentional vector where it is fed, we where it is made; its ``hidden_dropout``
has no counterpart and is 0. Our output has a bias that JoeyNMT lacks, our keys lack one that its Transformer has.
Its step also sorts the batch and counts right tokens, and its Adam is PyTorch's default one while ours is the fused
one: that is how each trains. What else differs, where JoeyNMT has no such model, is printed below the table.

**The limit** is the time that the step's multiply–adds (``train_step_limit.py``) take as large matrix products, at
the speed measured in the same run.

Everything is interleaved: in each round the toolkits and the matrix product have their turn, one at a time, each in a
process of its own that sleeps while others compute. A figure is the median over the rounds; round i has batch i.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from harness import peers
from harness.driver import Worker, interleaved
from harness.environment import BENCHMARKS
from harness.results import RESULTS, Record, compare, machine, table, write
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn
from train_step_limit import multiply_adds

from seqloom.batch import END, PAD, UNKNOWN

PEER = "joeynmt 2.3.0"
DIFFERENCES = {
    "luong": "JoeyNMT's recurrent encoder must be bidirectional: 2 layers of 2 × 128, for our 2 layers of 256; "
    "its bridge is a perceptron, ours hands the state over",
    "bahdanau": "JoeyNMT's GRU decoder attends with its new state and feeds the attentional vector back, ours "
    "attends with the last state and feeds the context; its GRU resets after the product, ours before; its readout "
    "is tanh of state and context, ours maxout of embedding, state and context",
}

SIZES = {"size": 256, "layers": 3, "heads": 4, "feed_forward": 1024, "dropout": 0.1}
BATCH = 64
SIDES = ("source", "target")
PRODUCT = 2048
"""Rows and columns of the large matrices."""
MODELS = ("bilstm", "luong", "bahdanau", "transformer")


class Data(NamedTuple):
    """A kind of batches; ``tokens`` of every sentence, or None: drawn like those of real sentences."""

    vocabulary: int
    tokens: int | None

    def __str__(self) -> str:
        return f"{self.vocabulary}/{self.tokens or 'sentences'}"

    def lengths(self, random: np.random.Generator) -> np.ndarray:
        """Lengths of the sources and targets of a batch, 2 × BATCH."""
        if self.tokens is not None:
            return np.full((2, BATCH), self.tokens)
        mean, deviation, correlation = 14.0, 4.6, 0.87
        variance = np.log(1 + (deviation / mean) ** 2)
        logs = random.multivariate_normal(
            [np.log(mean) - variance / 2] * 2, variance * np.array([[1, correlation], [correlation, 1]]), BATCH
        )
        return np.exp(logs.T).round().clip(4, 40).astype(int)


DATA = (Data(8000, 14), Data(8000, None), Data(60, 9))


class Case(NamedTuple):
    """A model on a kind of batches."""

    model: str
    data: Data

    def __str__(self) -> str:
        return f"{self.model}/{self.data}"


def batches(data: Data, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Padded ids of sources and targets; the same at every call."""
    random = np.random.default_rng(0)
    for _ in range(count):
        sources, targets = data.lengths(random)
        source, target = (_padded(n, data.vocabulary, random) for n in (sources, targets))
        target[np.arange(BATCH), targets - 1] = END
        yield source, target


def _padded(lengths: np.ndarray, vocabulary: int, random: np.random.Generator) -> np.ndarray:
    ids = random.integers(UNKNOWN + 1, vocabulary, (len(lengths), lengths.max()))
    return np.where(np.arange(lengths.max()) < lengths[:, None], ids, PAD)


def measure(case: Case, peer: Path, *, rounds: int, threads: int, progress: Progress) -> tuple[Record, float]:
    """A case's record, and the speed of large products beside it in multiply–adds per millisecond."""
    made = list(batches(case.data, rounds))
    task = progress.add_task(str(case), total=None)
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "batches.npz"
        named = {f"{side}_{n}": ids for n, pair in enumerate(made) for side, ids in zip(SIDES, pair, strict=True)}
        np.savez(file, allow_pickle=False, **named)
        ours, theirs, product = (
            stack.enter_context(Worker(python, BENCHMARKS / script, threads=threads))
            for python, script in (
                (sys.executable, "train_step_seqloom.py"),
                (peer, "train_step_joeynmt.py"),
                (sys.executable, "matrix_product.py"),
            )
        )
        description: dict[str, Any] = {
            "model": case.model,
            "vocabulary": case.data.vocabulary,
            "batches": str(file),
            "sizes": SIZES,
        }
        ours.ask("make", **description)
        theirs.ask("make", **description)
        product.ask("make", size=PRODUCT)
        warm_up = 2
        progress.update(task, total=warm_up + rounds)
        times = interleaved(
            {"ours": ours.turn, "peer": theirs.turn, "product": product.turn},
            rounds=rounds,
            warm_up=warm_up,
            progress=lambda: progress.advance(task),
        )
        speeds = [PRODUCT**3 / ms for ms in times["product"]]
        needed = [
            multiply_adds(case.model, (source != PAD).sum(1), (target != PAD).sum(1), case.data.vocabulary, SIZES)
            for source, target in made
        ]
        record = compare(
            str(case),
            PEER,
            ours_ms=median(times["ours"]),
            peer_ms=median(times["peer"]),
            limit_ms=median(needed) / median(speeds),
            ours_mb=ours.ask("memory"),
            peer_mb=theirs.ask("memory"),
        )
    return record, median(speeds)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="The training step beside JoeyNMT's and beside the limit.")
    parser.add_argument("--cases", nargs="+", metavar="TEXT", help="only cases whose name holds one of these")
    parser.add_argument("--rounds", type=int, default=9, help="how many count (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each (%(default)s)")
    parser.add_argument(
        "--out", type=Path, help="folder for the results; by default benchmarks/results if all cases run"
    )
    options = parser.parse_args()
    cases = [Case(model, data) for model in MODELS for data in DATA]
    chosen = [case for case in cases if not options.cases or any(text in str(case) for text in options.cases)]
    if not chosen:
        parser.error(f"no such case; there are {', '.join(map(str, cases))}")
    peer = peers.joeynmt()
    records, speeds = [], []
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for case in chosen:
            record, speed = measure(case, peer, rounds=options.rounds, threads=options.threads, progress=progress)
            records.append(record)
            progress.print(f"{case}: {record.ours_ms} ms, {PEER} {record.peer_ms} ms")
            speeds.append(speed)
    notes = [f"{name}: {text}." for name, text in DIFFERENCES.items() if any(c.model == name for c in chosen)]
    text = "\n\n".join(
        [
            f"{machine(options.threads)}; large products {2 * median(speeds) / 1e6:.0f} GFLOP/s; "
            f"medians of {options.rounds} rounds",
            table(records),
            *notes,
        ]
    )
    print(text)
    if options.out or chosen == cases:
        write("train_step", records, text, options.out or RESULTS)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
