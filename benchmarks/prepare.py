"""A generated corpus of 10 million pairs: memory and time of preparing it, start-up time, and waiting for batches.

    .venv/bin/python benchmarks/prepare.py                        # 10 million pairs: about 3 GB in --work
    .venv/bin/python benchmarks/prepare.py --pairs 100000 --multi30k DIRECTORY

The pairs consist of 50,000 generated words with a Zipf distribution. Their lengths are distributed like those of
Multi30k (log-normal with mean 14 and standard deviation 4.6, correlation 0.87). They are in two line-aligned files.
Every stage is a separate process, with its own peak memory:

    prepare   ``prepare`` with BPE and a vocabulary size of 8,000 on each side
    start     what training does before its first update: import, open the corpus, plan an epoch, collate a batch
    command   ``seqloom train`` itself, from the command to its first update
    train     updates of ``bahdanau`` with hidden size 256 on batches of 4,096 tokens from ``Prefetch``, and the time
              that the model waits for batches

Memory is the peak resident set size. It includes the touched pages of memory-mapped files, although the system can
reclaim them at any time. ``--multi30k DIRECTORY``, with train.de and train.en, also measures the padding on Multi30k.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from harness.environment import BENCHMARKS
from harness.results import machine

WORDS = 50_000
CHUNK = 100_000
TOKENS = 4096
STEPS = 10
DEV = 100
Figures = dict[str, float]


def make_pairs(folder: str, pairs: int) -> Figures:
    """Write ``pairs`` line-aligned pairs; every call writes the same ones."""
    random = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwygpbvk"))
    lexicon = np.array(["".join(random.choice(letters, n)) for n in random.integers(2, 11, WORDS)], dtype=object)
    chances = np.cumsum(1 / np.arange(1, WORDS + 1))
    variance = np.log(1 + (4.6 / 14) ** 2)
    covariance = variance * np.array([[1, 0.87], [0.87, 1]])
    files = [open(Path(folder) / f"train.{side}", "w", encoding="utf-8") for side in ("source", "target")]  # noqa: SIM115
    for begin in range(0, pairs, CHUNK):
        logs = random.multivariate_normal([np.log(14) - variance / 2] * 2, covariance, min(CHUNK, pairs - begin))
        for file, lengths in zip(files, np.exp(logs.T).round().clip(4, 40).astype(int), strict=True):
            drawn = np.searchsorted(chances, random.random(lengths.sum()) * chances[-1])
            words = iter(lexicon[drawn])
            file.writelines(" ".join(islice(words, int(length))) + ".\n" for length in lengths)
    for file in files:
        file.close()
    return {"text_gb": sum(os.path.getsize(file.name) for file in files) / 1e9}


def prepare_them(folder: str, pairs: int) -> Figures:
    """Prepare the generated pairs."""
    from seqloom.data.prepare import prepare
    from seqloom.data.readers import Files

    before = _megabytes("VmRSS")
    begin = time.perf_counter()
    pairs_of_text = Files.of(f"{folder}/train.{{source,target}}")
    prepared = prepare(Path(folder) / "corpus", pairs_of_text, list(islice(pairs_of_text.read(), DEV)))
    taken = time.perf_counter() - begin
    size = sum(file.stat().st_size for file in (Path(folder) / "corpus").iterdir())
    return {
        "prepare_s": taken,
        "pairs_per_s": pairs / taken,
        "prepare_peak_mb": _megabytes("VmHWM"),
        "prepare_peak_above_imports_mb": _megabytes("VmHWM") - before,
        "corpus_gb": size / 1e9,
        "kept_pairs": len(prepared.train),
    }


def start(folder: str, pairs: int) -> Figures:
    """Measure the time from a Python that has imported numpy to the first batch."""
    times = [time.perf_counter()]
    from seqloom.data.batchers import BatchSize, Bucketed
    from seqloom.data.prepare import PreparedCorpus

    times.append(time.perf_counter())
    before = _megabytes("VmRSS")
    corpus = PreparedCorpus.open(Path(folder) / "corpus").train
    times.append(time.perf_counter())
    batching = Bucketed(corpus, BatchSize(tokens=TOKENS), 1)
    plan = batching.plan(0)
    times.append(time.perf_counter())
    corpus.batch(plan[0])
    times.append(time.perf_counter())
    peak = _megabytes("VmHWM") - before
    for indices in plan[:1000]:
        corpus.batch(indices)
    per_batch = (time.perf_counter() - times[-1]) / len(plan[:1000])
    imports, opening, planning, first = np.diff(times)
    return {
        "import_s": imports,
        "open_s": opening,
        "plan_s": planning,
        "first_batch_s": first,
        "start_s": times[-1] - times[0],
        "start_peak_above_imports_mb": peak,
        "ms_per_batch": per_batch * 1e3,
        "padding_share": batching.padding_share(plan),
    }


def train(folder: str, pairs: int) -> Figures:
    """Train on prefetched batches."""
    import torch

    from seqloom import build_model
    from seqloom.data.batchers import BatchSize, Bucketed
    from seqloom.data.prefetch import Prefetch
    from seqloom.data.prepare import PreparedCorpus

    torch.manual_seed(0)
    prepared = PreparedCorpus.open(Path(folder) / "corpus")
    corpus, sizes = prepared.train, {name: field.size for name, field in prepared.fields.items()}
    model = build_model("bahdanau", sizes=sizes, hidden_size=256).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    plan = Bucketed(corpus, BatchSize(tokens=TOKENS), 1).plan(0)
    with Prefetch(corpus.batch(indices) for indices in plan[: STEPS + 1]) as batches:
        next(batches)  # the wait for the first batch cannot be avoided
        first, begin = batches.waited, time.perf_counter()
        for batch in batches:
            model.loss(batch).mean.backward()
            optimizer.step()
            optimizer.zero_grad()
        taken = time.perf_counter() - begin
    return {"waiting_share": (batches.waited - first) / taken, "ms_per_step": taken / STEPS * 1e3}


def command(folder: str, pairs: int) -> Figures:
    """Run ``seqloom train`` with the default model, from its start to its first update."""
    run = Path(folder) / "run"
    words = ["train", "--train", f"{folder}/corpus", "--out", str(run), "--set", "train.log_every=1"]
    begin = time.time()
    with subprocess.Popen([sys.executable, "-m", "seqloom", *words], stderr=subprocess.DEVNULL) as process:
        timing = run / "timing.jsonl"
        while process.poll() is None and not (timing.exists() and timing.read_text().endswith("\n")):
            time.sleep(0.01)
        logged = time.time()
        peak = _megabytes("VmHWM", process.pid)
        process.kill()
    first = json.loads(timing.read_text().splitlines()[0])
    return {"command_start_s": logged - begin - first["seconds"], "command_peak_mb": peak}


def padding(folder: str, data: str) -> Figures:
    """Share of padding on Multi30k."""
    from seqloom.data.batchers import BatchSize, Bucketed
    from seqloom.data.prepare import prepare
    from seqloom.data.readers import Files

    corpus = prepare(Path(folder) / "multi30k", Files.of(f"{data}/train.{{de,en}}")).train
    shares = {}
    for unit, size in (("tokens", TOKENS), ("sentences", 64)):
        batching = Bucketed(corpus, BatchSize(**{unit: size}), 1)  # type: ignore[arg-type]
        shares[f"multi30k_padding_{size}_{unit}"] = max(batching.padding_share(batching.plan(e)) for e in range(3))
    return shares


def apart(stage: Callable[..., Figures], *arguments: Any) -> Figures:
    """Run a stage in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(stage, arguments)


def _megabytes(field: str, process: int | str = "self") -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(f"/proc/{process}/status has no {field}")


def measured(options: argparse.Namespace) -> Iterator[Figures]:
    """Run the stages one after the other."""
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        for stage in (make_pairs, prepare_them, start, command, train):
            yield apart(stage, folder, options.pairs)
        if options.multi30k:
            yield apart(padding, folder, str(options.multi30k))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Prepare a large corpus and train on it.")
    parser.add_argument("--pairs", type=int, default=10_000_000, help="pairs to generate (%(default)s)")
    parser.add_argument(
        "--work", type=Path, help="directory of the generated files; default: the system's temporary directory"
    )
    parser.add_argument(
        "--multi30k", type=Path, metavar="DIRECTORY", help="directory with train.de and train.en, to measure padding"
    )
    parser.add_argument("--out", type=Path, help="directory of the results; default: results are only printed")
    options = parser.parse_args()
    text = f"{machine(len(os.sched_getaffinity(0)))}\n"
    print(text)
    record: Figures = {"pairs": options.pairs}
    for figures in measured(options):
        record |= figures
        lines = "".join(f"{name:32}{value:>14,.4g}\n" for name, value in figures.items())
        print(lines, end="", flush=True)
        text += lines
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "prepare.json").write_text(json.dumps([record], indent=1) + "\n", encoding="utf-8")
        (options.out / "prepare.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(BENCHMARKS))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
