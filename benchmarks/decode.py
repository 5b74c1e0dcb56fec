"""Search beside that of other toolkits, and beside what the machine could do at most, in sentences per second.

Three models with random weights:

    bilstm       a bidirectional LSTM encoder, a ``luong`` decoder with additive score and input feeding, embeddings
                 and hidden states of 256, vocabulary 8,000: JoeyNMT's recurrent model
    transformer  3 layers of 256, 4 heads, feed-forward 1,024, norm before each sub-layer, vocabulary 8,000
    g2p          Yoyodyne's soft-attention LSTM at its default sizes: a bidirectional LSTM of 512, an LSTM of 512 that
                 attends additively with its last state, embeddings of 128, 70 symbols

A case is model/beam/batch; a beam of 1 is greedy search. The lengths of sources are drawn like those of Multi30k, as
in ``train_step.py``; the words of ``g2p`` have 9 letters. Every answer has the same number of steps, 14 tokens, or 8
phonemes, its END among them: before that END is forbidden, and there the search ends. Each toolkit is given the same
ids and runs its own search on a batch that is ready; making batches and text is not counted.

**JoeyNMT 2.3.0** keeps no keys and values of a Transformer, so it computes all steps again at each. Like ours, its
search is asked for no attention weights; greedily it computes no probabilities.

**CTranslate2 4.8.4** has the very weights of our Transformer, in float32 and (rounded by itself) in int8. Before it
is timed, its greedy answers in float32 are compared with ours: if they differ, the benchmark refuses. It computes no
probabilities greedily, and has its own matrix products, not PyTorch's.

**Yoyodyne 0.5.27** has a maximum length but no minimum, so its END gets a bias that keeps it from ending. It reads
START and END around a source, and has six special symbols, of which we have four.

**The limit** is the time that the multiply–adds (``decode_limit.py``) take as large matrix products, at the speed
measured in the same run. A single sentence can't come near it: its weights are read from memory for a row or five,
and that takes longer than to multiply.

Everything is interleaved: in each round the toolkits and the matrix product have their turn, one at a time, each in a
process of its own that sleeps while others compute. A figure is the median over the rounds; round i has batch i.

**Lengths.** How the time of an answer grows with its length, from 10 to 1,000 tokens, is measured on ``bilstm`` and
``transformer`` (``decode_lengths.py``), for one sentence of 14 tokens with a beam of 5.
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
"""What share of answers by the same weights must be the same: rounding may decide between two tokens, but rarely."""


class Model(NamedTuple):
    """A model, what it reads, and how many tokens an answer has, its END among them."""

    name: str
    data: Data
    steps: int
    sizes: dict[str, Any]


class Peer(NamedTuple):
    """Whom we are compared with.

    name: with its version.
    python: makes its environment.
    script: the worker.
    models: which of them it has.
    options: what its worker is told besides the case.
    exact: whether its model has our weights, so that greedy answers must be the same.
    """

    name: str
    python: Callable[[], Path]
    script: str
    models: Sequence[str]
    options: dict[str, str]
    exact: bool = False


class Case(NamedTuple):
    """A model and a search."""

    model: Model
    beam: int
    batch: int

    def __str__(self) -> str:
        return f"{self.model.name}/{self.beam}/{self.batch}"


class Run(NamedTuple):
    """How all cases are measured: how many rounds count, each worker's threads, and where progress is shown."""

    rounds: int
    threads: int
    progress: Progress

    def follow(self, name: str) -> Callable[[], None]:
        """What is called after every round of a case."""
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
    """Padded ids of sources; the same at every call."""
    some = [source[:batch] for source, _ in batches(data, count)]
    return [source[:, : (source != PAD).sum(1).max()] for source in some]


def measure(case: Case, run: Run) -> tuple[list[Decoding], float]:
    """A case's records, one for each peer, and the speed of large products beside it in multiply–adds per ms."""
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
        ours = start(sys.executable, "decode_seqloom.py", **description)  # first, as it exports for others
        theirs = [start(peer.python(), peer.script, **description, **peer.options) for peer in facing]
        answers = ours.ask("result", number=0)
        for peer, worker in zip(facing, theirs, strict=True):
            check(case, peer, answers, worker.ask("result", number=0))
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
    """What a worker is told of a case, but for the steps of an answer; the sources go into the folder."""
    np.savez(Path(folder) / "sources.npz", *made, allow_pickle=False)
    vocabulary = model.data.vocabulary
    return {"model": model.name, "vocabulary": vocabulary, "sizes": model.sizes, "beam": beam, "folder": folder}


def check(case: Case, peer: Peer, ours: list[list[int]], theirs: list[list[int]]) -> None:
    """Refuse a peer that writes less than we do; and one with our weights that writes something else."""
    tokens = case.model.steps - 1
    if any(len(answer) < tokens for answer in (*ours, *theirs)) or len(ours) != len(theirs):
        raise RuntimeError(f"{case}: not all answers by {peer.name} and us have {tokens} tokens")
    same = [our[:tokens] == their[:tokens] for our, their in zip(ours, theirs, strict=True)]
    if peer.exact and case.beam == 1 and np.mean(same) < AGREE:
        raise RuntimeError(f"{case}: {peer.name} has our weights, but only {np.mean(same):.0%} of our answers")


def measure_lengths(name: str, run: Run) -> list[Length]:
    """How the time of a model's answer grows with its length."""
    model = LENGTHS[name]
    with tempfile.TemporaryDirectory() as folder:
        made = sources(Data(model.data.vocabulary, 14), 1, run.rounds)
        description = describe(model, made, beam=5, folder=folder)
        return times_by_length(name, description, rounds=run.rounds, threads=run.threads, progress=run.follow(name))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Search beside that of other toolkits and beside the limit.")
    parser.add_argument("--cases", nargs="+", metavar="TEXT", help="only cases whose name holds one of these")
    parser.add_argument("--rounds", type=int, default=9, help="how many count (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each (%(default)s)")
    parser.add_argument(
        "--out", type=Path, help="folder for the results; by default benchmarks/results if all cases run"
    )
    options = parser.parse_args()
    names = [*map(str, CASES), *LENGTHS]
    chosen = [name for name in names if not options.cases or any(text in name for text in options.cases)]
    if not chosen:
        parser.error(f"no such case; there are {', '.join(names)}")
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
        heading += f"; large products {2 * median(speeds) / 1e6:.0f} GFLOP/s; speeds in sentences per second"
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
