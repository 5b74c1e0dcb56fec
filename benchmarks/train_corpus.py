"""Training speed on a corpus, each toolkit with its own reader, batches and training loop.

    multi30k  German to English, compared with JoeyNMT 2.3.0, in target tokens per second (EOS included, padding
              excluded). A bidirectional LSTM encoder, a ``luong`` decoder with additive attention and input feeding,
              hidden size and embedding size 256, batches of 64 sentences; 100 updates are timed.
    g2p       Hungarian graphemes to phonemes, compared with Yoyodyne 0.5.27, in epochs per minute. The model is
              Yoyodyne's soft-attention LSTM at its default sizes: a bidirectional LSTM encoder of size 512, an LSTM
              decoder of size 512 with a learned initial state, whose additive attention is queried with the previous
              state, embedding size 128, batches of 32 words; the updates of one epoch are timed.

The data directory has ``multi30k/train.de``, ``multi30k/train.en`` and ``g2p/hun_train.tsv``. Multi30k is tokenized
with BPE beforehand, with 8,000 tokens per side, so that both toolkits train on the same tokens, separated by spaces.
Dropout, gradient clipping, and Adam's learning rate are equal; neither toolkit validates in the timed span.

The timed span begins after a warmup and includes everything that an update needs: its batch, forward and backward
pass, gradient clipping and the optimizer step. Each toolkit uses its own techniques: seqloom buckets sentences by
length, builds batches in the background and has PyTorch's fused Adam; the peers do not sort, and have PyTorch's
default Adam; Yoyodyne builds batches in another process. Times come from seqloom's ``timing.jsonl`` and, for the
peers, from the beginning of each step.

In each round the toolkits take turns, each in a separate process, every other round in reverse order; round i has
seed i. Every figure is the median over the rounds.
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

VOCAB_SIZE = 8000
DEV = 8
"""Number of validation pairs: few, since a toolkit may validate after training, which is not timed."""
ALIKE = 0.03
"""Maximum relative difference in parameters between two models that are meant to be equal."""


class Case(NamedTuple):
    """A model and a corpus.

    peer: name and version of the toolkit to compare with.
    python: creates the peer's environment and returns its Python.
    needs: files in the data directory.
    prepare: writes ``train`` and ``dev`` for all toolkits, and returns the number of training pairs.
    sizes: sizes of the model and of a batch, and options of the optimizer.
    warm_up: untimed updates before the timed ones.
    span: timed updates; None is one epoch.
    differences: how the peer's model differs from ours.
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
        """Unit of the speed."""
        return "epochs/min" if self.span is None else "tokens/s"


def prepare_multi30k(data: Path, folder: Path, dev: str | None = None) -> int:
    """Tokenize the sentences with BPE, with a separate vocabulary per side; tokens are separated by spaces.

    dev: name of the validation set; None uses a few of the training pairs.
    """
    for language in ("de", "en"):
        lines = _lines(data / f"multi30k/train.{language}")
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE, special_tokens=["<unk>"], show_progress=False)
        tokenizer.train_from_iterator(lines, trainer)
        tokenized = [" ".join(encoded.tokens) + "\n" for encoded in tokenizer.encode_batch(lines)]
        _write(folder, f".{language}", tokenized)
        if dev is not None:
            validation = tokenizer.encode_batch(_lines(data / f"multi30k/{dev}.{language}"))
            text = "".join(" ".join(encoded.tokens) + "\n" for encoded in validation)
            (folder / f"dev.{language}").write_text(text, encoding="utf-8")
    return len(tokenized)


def _lines(file: Path) -> list[str]:
    """Read the lines of a text, with whitespace normalized so that all toolkits split it alike."""
    text = normalize("NFC", file.read_text(encoding="utf-8"))
    return [" ".join(line.split()) for line in text.rstrip("\n").split("\n")]


def prepare_g2p(data: Path, folder: Path) -> int:
    """Copy the words and their phonemes."""
    lines = (data / "g2p/hun_train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    _write(folder, ".tsv", lines)
    return len(lines)


def _write(folder: Path, suffix: str, lines: Sequence[str]) -> None:
    for name, some in (("train", lines), ("dev", lines[:DEV])):
        (folder / f"{name}{suffix}").write_text("".join(some), encoding="utf-8")


CASES = (
    Case(
        "multi30k",
        "joeynmt 2.3.0",
        peers.joeynmt,
        ("multi30k/train.de", "multi30k/train.en"),
        prepare_multi30k,
        {"embedding": 256, "hidden": 256, "dropout": 0.1, "batch": 64, "rate": 1e-3, "clip": 1.0},
        warm_up=20,
        span=100,
        differences="JoeyNMT computes the decoder's initial h and c with one shared layer, seqloom with one layer "
        "each. JoeyNMT has two biases per cell (seqloom: one) and a bias of the attentional vector, but none in the "
        "attention score and the output layer, where seqloom has them. JoeyNMT applies dropout to the attentional "
        "vector where it is fed, seqloom where it is computed. JoeyNMT appends EOS to the source.",
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
        differences="Yoyodyne has two biases per cell (seqloom: one), a bias of the attention scores, which has no "
        "effect on the softmax, and six special tokens for both sides together (seqloom: four per side). It adds BOS "
        "and EOS to the source.",
    ),
)


def measure(case: Case, data: Path, *, rounds: int, threads: int, progress: Progress) -> Speed:
    """Measure a case."""
    task = progress.add_task(case.name, total=rounds)
    parameters: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as home:
        corpus = Path(home) / "corpus"
        corpus.mkdir()
        epoch = math.ceil(case.prepare(data, corpus) / case.sizes["batch"])
        span = case.span or epoch

        def turn(name: str, python: Path | str, number: int) -> float:
            """Return the speed of one training, in a new process."""
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
        raise RuntimeError(f"{case.name}: the models differ in size: {parameters} parameters")
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
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Training speed on a corpus, compared with other toolkits.")
    parser.add_argument("data", type=Path, help="data directory with multi30k/train.{de,en} and g2p/hun_train.tsv")
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in CASES], help="run only these cases")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (%(default)s)")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads per process (%(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, help="directory of the results; default: benchmarks/results if all cases run"
    )
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.cases or case.name in options.cases]
    missing = [options.data / need for case in chosen for need in case.needs if not (options.data / need).is_file()]
    if missing:
        parser.error(f"{missing[0]} not found: give the directory that contains it, or choose other --cases")
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
