"""Search speed in sentences per second, compared with other toolkits and with the limit of the machine.

Three models with random weights:

    bilstm       JoeyNMT's recurrent model: a bidirectional LSTM encoder, a ``luong`` decoder with additive attention
                 and input feeding, embedding size and hidden size 256, vocabulary size 8,000
    transformer  3 layers, hidden size 256, 4 heads, feed-forward size 1,024, pre-norm, vocabulary size 8,000
    g2p          Yoyodyne's soft-attention LSTM at its default sizes: a bidirectional LSTM encoder of size 512, an
                 LSTM decoder of size 512 whose additive attention is queried with the previous state, embedding size
                 128, 70 symbols

A case is named model/beam size/batch size; beam size 1 is greedy search. Source lengths follow the distribution of
Multi30k, as in ``train_step.py``; the words of ``g2p`` have 9 letters. All outputs have the same length, EOS
included: 14 tokens, or 8 phonemes for ``g2p``. EOS is forbidden before that length, and the search stops at it. Every
toolkit gets the same token ids and runs its own search on prepared batches. Batching and detokenization are not
timed.

**JoeyNMT 2.3.0** has no KV cache for Transformers, so every step recomputes all previous ones. As in seqloom, its
search is run without attention weights. Its greedy search computes no probabilities.

**CTranslate2 4.8.4** has the weights of our Transformer, in float32 and quantized to int8. Before it is timed, its
greedy outputs in float32 are compared with ours; if they differ, the benchmark fails. Its greedy search computes no
probabilities. It has its own matrix multiplication, not PyTorch's.

**Yoyodyne 0.5.27** has a maximum length but no minimum length; a bias on the EOS logit keeps it from ending early. It
adds BOS and EOS to the source, and has six special tokens where seqloom has four.

**The limit** is the time that the multiply–adds (``decode_limit.py``) would take in large matrix multiplications, at
the speed measured in the same run. With batch size 1 no toolkit comes near it: reading the weights from memory takes
longer than multiplying them with one to five rows.

Measurements are interleaved: in each round, the toolkits and the matrix multiplication take turns, each in a separate
process that sleeps while the others compute. Every figure is the median over the rounds; round i uses batch i.

**Lengths.** ``decode_lengths.py`` measures how the time grows with the output length, from 10 to 1,000 tokens, for
``bilstm`` and ``transformer``, with one source of 14 tokens and beam size 5.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from decode_lengths import growth, times_by_length
from decode_limit import multiply_adds
from harness import peers
from harness.driver import Worker, interleaved
from harness.environment import BENCHMARKS
from harness.results import RESULTS, Decoding, Length, machine, table, write
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn
from train_step import PRODUCT, SIZES, Data, batches

from seqloom.batch import PAD

WARM_UP = 2
AGREE = 0.9
"""Minimum share of equal outputs with the same weights: rounding may rarely decide between two tokens."""


class Model(NamedTuple):
    """A model, its input, and the number of tokens of every output, EOS included."""

    name: str
    data: Data
    steps: int
    sizes: dict[str, Any]


class Peer(NamedTuple):
    """A toolkit to compare with.

    name: its name and version.
    python: creates its environment and returns its Python.
    script: its worker.
    models: names of the models that it has.
    options: further arguments of its worker.
    exact: whether it runs our weights, so that greedy outputs must be equal.
    """

    name: str
    python: Callable[[], Path]
    script: str
    models: Sequence[str]
    options: dict[str, str]
    exact: bool = False


class Case(NamedTuple):
    """A model, a beam size and a batch size."""

    model: Model
    beam: int
    batch: int

    def __str__(self) -> str:
        return f"{self.model.name}/{self.beam}/{self.batch}"


class Run(NamedTuple):
    """Settings of all measurements: timed rounds, threads per worker, and the progress display."""

    rounds: int
    threads: int
    progress: Progress

    def follow(self, name: str) -> Callable[[], None]:
        """Return a function to call after every round of a case."""
        task = self.progress.add_task(name, total=self.rounds + WARM_UP)
        return lambda: self.progress.advance(task)


MODELS = (
    Model("bilstm", Data(8000, None), 14, SIZES),
    Model("transformer", Data(8000, None), 14, SIZES),
    Model("g2p", Data(70, 9), 8, {"embedding": 128, "hidden": 512, "dropout": 0.2}),
)
PEERS = (
    Peer("joeynmt 2.3.0", peers.joeynmt, "decode_joeynmt.py", ("bilstm", "transformer"), {}),
    Peer("ctranslate2 4.8.4 float32", peers.ctranslate2, "decode_ctranslate2.py", ("transformer",),
         {"compute_type": "float32"}, exact=True),
    Peer("ctranslate2 4.8.4 int8", peers.ctranslate2, "decode_ctranslate2.py", ("transformer",),
         {"compute_type": "int8"}),
    Peer("yoyodyne 0.5.27", peers.yoyodyne, "decode_yoyodyne.py", ("g2p",), {}),
)  # fmt: skip
CASES = [Case(model, beam, batch) for model in MODELS for beam in (1, 5) for batch in (1, 64)]
LENGTHS = {f"{model.name}/lengths": model for model in MODELS[:2]}


def sources(data: Data, batch: int, count: int) -> list[np.ndarray]:
    """Padded token ids of sources; every call returns the same ones."""
    some = [source[:batch] for source, _ in batches(data, count)]
    return [source[:, : (source != PAD).sum(1).max()] for source in some]


def measure(case: Case, run: Run) -> tuple[list[Decoding], float]:
    """Return one record per peer, and the speed of large matrix multiplications in multiply–adds per ms."""
    model, facing = case.model, [peer for peer in PEERS if case.model.name in peer.models]
    made = sources(model.data, case.batch, run.rounds)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        description = describe(model, made, beam=case.beam, folder=folder) | {"steps": model.steps}

        def start(python: Path | str, script: str, **arguments: Any) -> Worker:
            worker = stack.enter_context(Worker(python, BENCHMARKS / script, threads=run.threads))
            worker.ask("make", **arguments)
            return worker

        product = start(sys.executable, "matrix_product.py", size=PRODUCT)
        ours = start(sys.executable, "decode_seqloom.py", **description)  # first: it exports the model for the others
        theirs = [start(peer.python(), peer.script, **description, **peer.options) for peer in facing]
        outputs = ours.ask("result", number=0)
        for peer, worker in zip(facing, theirs, strict=True):
            check(case, peer, outputs, worker.ask("result", number=0))
        turns = {"ours": ours.turn, "product": product.turn}
        turns |= {peer.name: worker.turn for peer, worker in zip(facing, theirs, strict=True)}
        times = interleaved(turns, rounds=run.rounds, warm_up=WARM_UP, progress=run.follow(str(case)))
    ms = {name: median(taken) for name, taken in times.items()}
    needed = median(
        multiply_adds(
            model.name,
            (source != PAD).sum(1),
            steps=model.steps,
            beam=case.beam,
            vocabulary=model.data.vocabulary,
            sizes=model.sizes,
        )
        for source in made
    )
    speed = PRODUCT**3 / ms["product"]
    records = [
        Decoding(
            str(case),
            peer.name,
            round(case.batch / ms["ours"] * 1e3, 2),
            round(case.batch / ms[peer.name] * 1e3, 2),
            round(ms[peer.name] / ms["ours"], 3),
            round(needed / speed / ms["ours"], 4),
        )
        for peer in facing
    ]
    return records, speed


def describe(model: Model, made: Sequence[np.ndarray], *, beam: int, folder: str) -> dict[str, Any]:
    """Arguments of a worker, except the number of steps; writes the sources to ``folder``."""
    np.savez(Path(folder) / "sources.npz", *made, allow_pickle=False)
    vocabulary = model.data.vocabulary
    return {"model": model.name, "vocabulary": vocabulary, "sizes": model.sizes, "beam": beam, "folder": folder}


def check(case: Case, peer: Peer, ours: list[list[int]], theirs: list[list[int]]) -> None:
    """Check that a peer's outputs are as long as ours, and equal to ours if it runs our weights."""
    tokens = case.model.steps - 1
    if any(len(output) < tokens for output in (*ours, *theirs)) or len(ours) != len(theirs):
        raise RuntimeError(f"{case}: some outputs of {peer.name} or seqloom do not have {tokens} tokens")
    same = [our[:tokens] == their[:tokens] for our, their in zip(ours, theirs, strict=True)]
    if peer.exact and case.beam == 1 and np.mean(same) < AGREE:
        raise RuntimeError(
            f"{case}: {peer.name} runs our weights, but only {np.mean(same):.0%} of its outputs equal ours"
        )


def measure_lengths(name: str, run: Run) -> list[Length]:
    """Measure the time of outputs of different lengths."""
    model = LENGTHS[name]
    with tempfile.TemporaryDirectory() as folder:
        made = sources(Data(model.data.vocabulary, 14), 1, run.rounds)
        description = describe(model, made, beam=5, folder=folder)
        return times_by_length(name, description, rounds=run.rounds, threads=run.threads, progress=run.follow(name))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Search speed, compared with other toolkits and the limit of the machine."
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
    names = [*map(str, CASES), *LENGTHS]
    chosen = [name for name in names if not options.cases or any(text in name for text in options.cases)]
    if not chosen:
        parser.error(f"no case matches --cases; the cases are {', '.join(names)}")
    records: list[Decoding] = []
    lengths: list[list[Length]] = []
    speeds: list[float] = []
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        run = Run(options.rounds, options.threads, progress)
        for case in (case for case in CASES if str(case) in chosen):
            some, speed = measure(case, run)
            records += some
            speeds.append(speed)
            for record in some:
                progress.print(f"{case}: {record.ours_speed}/s, {record.peer} {record.peer_speed}/s")
        for name in (name for name in LENGTHS if name in chosen):
            lengths.append(measure_lengths(name, run))
            progress.print(growth(lengths[-1]))
    heading = f"{machine(options.threads)}; medians of {options.rounds} rounds"
    if speeds:
        heading += f"; large matmuls {2 * median(speeds) / 1e6:.0f} GFLOP/s; speeds in sentences per second"
    rows = [row for some in lengths for row in some]
    tables = [table(some) for some in (records, rows) if some]
    text = "\n\n".join([heading, *tables, *map(growth, lengths)])
    print(text)
    if options.out or chosen == names:
        write("decode", [*records, *rows], text, options.out or RESULTS)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
