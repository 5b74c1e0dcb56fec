"""The speed of training on a corpus, each toolkit with its own reading, batching and loop.

    multi30k  German to English, against JoeyNMT 2.3.0: target tokens per second, END counted, padding not. A
              bidirectional LSTM of 256 encodes; a ``luong`` decoder of 256 with additive score and input feeding
              decodes; embeddings of 256; 64 sentences a batch; 100 updates are timed.
    g2p       Hungarian spelling to phonemes, against Yoyodyne 0.5.27: epochs per minute. This is its soft-attention
              LSTM at its default sizes: a bidirectional LSTM of 512 encodes; an LSTM of 512, from a learned first
              state, decodes, and attends additively with its last state; embeddings of 128; 32 words a batch; the
              updates of one epoch are timed.

The data folder has ``multi30k/train.de``, ``multi30k/train.en`` and ``g2p/hun_train.tsv``. Multi30k is cut into BPE
pieces beforehand, 8,000 a side, so that both toolkits learn from the very same tokens, separated by spaces. Both have
the same dropout, Adam at the same rate and the same clipping; neither looks at a dev set in the timed span.

What is timed begins after a warm-up and holds all that an update takes: making its batch, forward, backward,
clipping, the optimiser. What each toolkit does to be fast counts: seqloom puts sentences of like length into a batch,
makes batches while the model computes, and has PyTorch's fused Adam; the peers do not sort, and have its default one;
Yoyodyne makes batches in another process.

Where the time is taken: in seqloom's ``timing.jsonl``, and in the peers where a step begins.

In each round the toolkits have their turn, one at a time and each in a process of its own, every other round
backwards; round i has seed i. A figure is the median over the rounds.
"""

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unicodedata import normalize

from harness import peers
from harness.driver import Worker, interleaved
from harness.environment import BENCHMARKS
from harness.results import RESULTS, Speed, machine, table, write
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

PIECES = 8000
DEV = 8
"""Pairs to judge by, which a toolkit may want when it has trained: the fewer, the sooner it ends."""
ALIKE = 0.03
"""By what share the numbers of parameters of two models may differ that are meant to be the same."""


class Case(NamedTuple):
    """A model and a corpus.

    peer: whom we are compared with, its version behind it.
    python: makes the peer's environment.
    needs: files of the data folder.
    prepare: puts ``train`` and ``dev`` for all toolkits into a folder, and says how many pairs there are to learn.
    sizes: of the model and of a batch, and the settings of the optimiser.
    warm_up, span: updates before those that are timed, and those; a span of None is an epoch.
    """

    name: str
    peer: str
    python: Callable[[], Path]
    needs: Sequence[str]
    prepare: Callable[[Path, Path], int]
    sizes: dict[str, Any]
    warm_up: int
    span: int | None
    differences: str

    @property
    def unit(self) -> str:
        """Of its speed."""
        return "epochs/min" if self.span is None else "tokens/s"


def cut_multi30k(data: Path, folder: Path, dev: str | None = None) -> int:
    """Sentences as BPE pieces separated by spaces; each side has pieces of its own.

    dev: a part to judge by; None: a few of the training pairs.
    """
    for language in ("de", "en"):
        lines = _lines(data / f"multi30k/train.{language}")
        cutter = Tokenizer(models.BPE(unk_token="<unk>"))
        cutter.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=PIECES, special_tokens=["<unk>"], show_progress=False)
        cutter.train_from_iterator(lines, trainer)
        cut = [" ".join(encoded.tokens) + "\n" for encoded in cutter.encode_batch(lines)]
        _put(folder, f".{language}", cut)
        if dev is not None:
            judged = cutter.encode_batch(_lines(data / f"multi30k/{dev}.{language}"))
            text = "".join(" ".join(encoded.tokens) + "\n" for encoded in judged)
            (folder / f"dev.{language}").write_text(text, encoding="utf-8")
    return len(cut)


def _lines(file: Path) -> list[str]:
    """The lines of a text, for all toolkits alike: a space is a space."""
    text = normalize("NFC", file.read_text(encoding="utf-8"))
    return [" ".join(line.split()) for line in text.rstrip("\n").split("\n")]


def prepare_g2p(data: Path, folder: Path) -> int:
    """Words and their phonemes as they are."""
    lines = (data / "g2p/hun_train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    _put(folder, ".tsv", lines)
    return len(lines)


def _put(folder: Path, suffix: str, lines: Sequence[str]) -> None:
    for name, some in (("train", lines), ("dev", lines[:DEV])):
        (folder / f"{name}{suffix}").write_text("".join(some), encoding="utf-8")


CASES = (
    Case(
        "multi30k",
        "joeynmt 2.3.0",
        peers.joeynmt,
        ("multi30k/train.de", "multi30k/train.en"),
        cut_multi30k,
        {"embedding": 256, "hidden": 256, "dropout": 0.1, "batch": 64, "rate": 1e-3, "clip": 1.0},
        warm_up=20,
        span=100,
        differences="JoeyNMT makes the decoder's first h and c by one layer, the same one, we by one each; "
        "it has two biases where a cell of ours has one, one at the attentional vector, none in the score, none at "
        "the output, where we have them; it drops from that vector where it is fed, we where it is made; "
        "it reads END behind a source.",
    ),
    Case(
        "g2p",
        "yoyodyne 0.5.27",
        peers.yoyodyne,
        ("g2p/hun_train.tsv",),
        prepare_g2p,
        {"embedding": 128, "hidden": 512, "dropout": 0.2, "batch": 32, "rate": 1e-3, "clip": 1.0},
        warm_up=10,
        span=None,
        differences="Yoyodyne has two biases where a cell of ours has one, a bias of the scores, which the softmax "
        "does not see, and six special symbols for both sides together, of which we have four a side; it reads START "
        "and END around a source.",
    ),
)


def measure(case: Case, data: Path, *, rounds: int, threads: int, progress: Progress) -> Speed:
    """A case's record."""
    task = progress.add_task(case.name, total=rounds)
    parameters: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as home:
        corpus = Path(home) / "corpus"
        corpus.mkdir()
        epoch = math.ceil(case.prepare(data, corpus) / case.sizes["batch"])
        span = case.span or epoch

        def turn(name: str, python: Path | str, number: int) -> float:
            """The speed of one training; a fresh process, as a toolkit trains once and ends."""
            script = BENCHMARKS / f"train_corpus_{name}.py"
            with (
                tempfile.TemporaryDirectory(dir=home) as folder,
                Worker(python, script, threads=threads) as worker,
            ):
                trained = worker.ask(
                    "train",
                    case=case.name,
                    corpus=str(corpus),
                    folder=f"{folder}/run",
                    sizes=case.sizes,
                    seed=number + 1,
                    warm_up=case.warm_up,
                    span=span,
                )
            parameters[name] = trained["parameters"]
            work = span / epoch * 60 if case.span is None else trained["tokens"]
            speed = float(work / trained["seconds"])
            progress.print(f"{case.name} {number + 1}: {name} {speed:,.2f} {case.unit}")
            return speed

        peer, _ = case.peer.split()
        participants = {"seqloom": partial(turn, "seqloom", sys.executable), peer: partial(turn, peer, case.python())}
        speeds = interleaved(participants, rounds=rounds, warm_up=0, progress=lambda: progress.advance(task))
    if abs(parameters["seqloom"] / parameters[peer] - 1) > ALIKE:
        raise RuntimeError(f"{case.name}: these models are not the same: {parameters} parameters")
    ours, theirs = median(speeds["seqloom"]), median(speeds[peer])
    return Speed(
        case.name,
        case.peer,
        case.unit,
        round(ours, 3),
        round(theirs, 3),
        round(ours / theirs, 3),
        parameters["seqloom"],
        parameters[peer],
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="The speed of training on a corpus beside other toolkits.")
    parser.add_argument("data", type=Path, help="folder with multi30k/train.{de,en} and g2p/hun_train.tsv")
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in CASES], help="only these")
    parser.add_argument("--rounds", type=int, default=5, help="how many (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each (%(default)s)")
    parser.add_argument(
        "--out", type=Path, help="folder for the results; by default benchmarks/results if all cases run"
    )
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.cases or case.name in options.cases]
    missing = [options.data / need for case in chosen for need in case.needs if not (options.data / need).is_file()]
    if missing:
        parser.error(f"{missing[0]} is not there; give the folder that holds it, or leave its case out by --cases")
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        records = [
            measure(case, options.data, rounds=options.rounds, threads=options.threads, progress=progress)
            for case in chosen
        ]
    text = "\n\n".join(
        [
            f"{machine(options.threads)}; medians of {options.rounds} rounds",
            table(records),
            *(f"{case.name}: {case.differences}" for case in chosen),
        ]
    )
    print(text)
    if options.out or len(chosen) == len(CASES):
        write("train_corpus", records, text, options.out or RESULTS)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
