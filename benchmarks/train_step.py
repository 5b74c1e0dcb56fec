"""Time of a training step (forward, backward, clipping, Adam), compared with JoeyNMT and the limit of the machine.

Four models with embedding size 256, hidden size 256 and batches of 64 sentences:

    bilstm       JoeyNMT's recurrent model: a bidirectional LSTM encoder, a ``luong`` decoder with additive attention
                 and input feeding
    luong        the preset with 2 layers, without reversing the source
    bahdanau     the preset
    transformer  3 layers, 4 heads, feed-forward size 1,024, pre-norm, no tied weights

Three kinds of batches, with random token ids (which have no influence on the time):

    8000/14         vocabulary size 8,000, all sentences of 14 tokens per side
    8000/sentences  vocabulary size 8,000, lengths distributed like those of real sentences
    60/9            60 symbols, 9 tokens per side

Target lengths include EOS. Lengths of ``sentences`` are log-normal with mean 14 and standard deviation 4.6 on both
sides, limited to 4 … 40, and their logarithms have a correlation of 0.87. They imitate Multi30k: its 29,000 training
pairs, split into words and punctuation, have 13.1 ± 4.1 English and 14.9 ± 5.1 French tokens, with a correlation of
logarithms of 0.87. Batches are not bucketed by length, so they have padding.

**JoeyNMT 2.3.0**, in a separate environment, gets the same token ids and runs its own model, loss and trainer. Both
toolkits use dropout 0.1. The Transformers have it in the same places: on embeddings with positional encoding, on
attention weights, and inside and after every sublayer. The recurrent models have it on embeddings and between layers;
JoeyNMT also applies it to the attentional vector where that is fed, seqloom where it is computed. JoeyNMT's
``hidden_dropout`` has no counterpart and is 0. Our output layer has a bias, JoeyNMT's has none; our keys have no
bias, those of its Transformer have one. JoeyNMT's step also sorts the batch and counts correct tokens, and its Adam
is PyTorch's default one, ours the fused one, as in real training. If JoeyNMT has no such model, further differences
are printed below the table.

**The limit** is the time that the multiply–adds of the step (``train_step_limit.py``) would take in large matrix
multiplications, at the speed measured in the same run.

Measurements are interleaved: in each round, the toolkits and the matrix multiplication take turns, each in a separate
process that sleeps while the others compute. Every figure is the median over the rounds; round i uses batch i.
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

from seqloom.batch import EOS, PAD, UNK

PEER = "joeynmt 2.3.0"
DIFFERENCES = {
    "luong": "JoeyNMT's recurrent encoder must be bidirectional: 2 layers of 2 × 128 units, seqloom has 2 layers of "
    "256; JoeyNMT's bridge is a dense layer, seqloom's copies the state",
    "bahdanau": "JoeyNMT's GRU decoder queries attention with its new state and feeds the attentional vector back, "
    "seqloom's queries with the previous state and feeds the context; JoeyNMT's GRU applies the reset gate after the "
    "matrix multiplication, seqloom's before; JoeyNMT's readout is tanh of state and context, seqloom's is maxout of "
    "embedding, state and context",
}

SIZES = {"size": 256, "layers": 3, "heads": 4, "feed_forward": 1024, "dropout": 0.1}
BATCH = 64
SIDES = ("source", "target")
PRODUCT = 2048
"""Rows and columns of the large matrices that are multiplied."""
MODELS = ("bilstm", "luong", "bahdanau", "transformer")


class Data(NamedTuple):
    """A kind of batches; ``tokens`` is the length of every sentence, or None for realistic random lengths."""

    vocabulary: int
    tokens: int | None

    def __str__(self) -> str:
        return f"{self.vocabulary}/{self.tokens or 'sentences'}"

    def lengths(self, random: np.random.Generator) -> np.ndarray:
        """Draw the lengths of the sources and targets of a batch, 2 × BATCH."""
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
    """A model and a kind of batches."""

    model: str
    data: Data

    def __str__(self) -> str:
        return f"{self.model}/{self.data}"


def batches(data: Data, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Padded token ids of sources and targets; every call returns the same ones."""
    random = np.random.default_rng(0)
    for _ in range(count):
        sources, targets = data.lengths(random)
        source, target = (_padded(n, data.vocabulary, random) for n in (sources, targets))
        target[np.arange(BATCH), targets - 1] = EOS
        yield source, target


def _padded(lengths: np.ndarray, vocabulary: int, random: np.random.Generator) -> np.ndarray:
    ids = random.integers(UNK + 1, vocabulary, (len(lengths), lengths.max()))
    return np.where(np.arange(lengths.max()) < lengths[:, None], ids, PAD)


def measure(case: Case, peer: Path, *, rounds: int, threads: int, progress: Progress) -> tuple[Record, float]:
    """Return the record of a case, and the speed of large matrix multiplications in multiply–adds per ms."""
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
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Time of a training step, compared with JoeyNMT and the limit of the machine."
    )
    parser.add_argument("--cases", nargs="+", metavar="TEXT", help="run only cases whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds (%(default)s)")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads per process (%(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, help="directory of the results; default: benchmarks/results if all cases run"
    )
    options = parser.parse_args()
    cases = [Case(model, data) for model in MODELS for data in DATA]
    chosen = [case for case in cases if not options.cases or any(text in str(case) for text in options.cases)]
    if not chosen:
        parser.error(f"no case matches --cases; the cases are {', '.join(map(str, cases))}")
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
            f"{machine(options.threads)}; large matmuls {2 * median(speeds) / 1e6:.0f} GFLOP/s; "
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
