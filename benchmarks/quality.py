"""Quality of models on public data, each trained with its recipe by the command line.

    .venv/bin/python benchmarks/quality.py DATA                    # all missing results: many hours
    .venv/bin/python benchmarks/quality.py DATA --cases g2p/fre    # only this case
    .venv/bin/python benchmarks/quality.py DATA --cases g2p/fre --force   # train and evaluate it again
    .venv/bin/python benchmarks/quality.py DATA --list             # names of the cases

A case is a corpus and a recipe; its runs differ only in their seeds. Runs are trained with ``seqloom train`` and
evaluated with ``seqloom evaluate``, each in a separate process; minutes are the duration of the training command. A
finished run is not trained again, unless ``--force`` is given, which first removes its results. If a case has several
runs, their ensemble (mean of the probabilities) is evaluated too. A ``Mixture`` is an ensemble of runs of several
cases. The test set is used once, after training; early stopping and checkpoint selection use the validation set.

``results/quality.json`` has one record per run or ensemble and test set, and is written after each of them. Several
instances of this program can run at once, with different cases.
"""

import argparse
import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.environment import BENCHMARKS
from harness.results import RESULTS, machine

RECIPES = BENCHMARKS.parent / "recipes"
FILE = RESULTS / "quality.json"
BLEU = "{name: bleu, lowercase: true}"
ERROR_RATES = ("sequence_error_rate", "per")
MEDIUM = ("arm_e", "bul", "dut", "fre", "geo", "hbs_latn", "hun", "jpn_hira", "kor", "vie_hanoi")
THREE = (1, 2, 3)


@dataclass(frozen=True)
class Case:
    """A corpus and a recipe.

    recipe: file name of the recipe; None sets no options.
    train, dev: files in the data directory.
    tests: files by the name of the test set.
    metrics: test metrics; the first is the primary one.
    seeds: seeds of the runs.
    some: number of training pairs to use; None uses all.
    """

    name: str
    recipe: str | None
    train: Sequence[str]
    dev: Sequence[str]
    tests: dict[str, Sequence[str]]
    metrics: Sequence[str]
    seeds: Sequence[int] = (1,)
    some: int | None = None


@dataclass(frozen=True)
class Mixture:
    """An ensemble of runs of several cases, given as (case name, seed), with the test sets of the first case."""

    name: str
    runs: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Record:
    """Result of a run or an ensemble on a test set.

    seeds: seed of each run.
    minutes: minutes of training of each run.
    parameters: number of parameters of all runs together.
    metrics: value, confidence interval and signature of every metric by its label; the first is the primary one.
    by_length: number of examples and value of the primary metric in every bucket of source lengths.
    """

    case: str
    test: str
    seeds: list[int]
    minutes: list[float]
    metrics: dict[str, Any]
    by_length: list[dict[str, Any]]
    parameters: int
    command: str
    machine: str


def multi30k(
    name: str, recipe: str | None, *, to: str = "en", seeds: Sequence[int] = (1,), some: int | None = None
) -> Case:
    """Case of Multi30k, between German and English."""
    languages = ("de", "en") if to == "en" else ("en", "de")

    def files(part: str) -> list[str]:
        return [f"multi30k/{part}.{language}" for language in languages]

    tests = {part: files(f"{part}_flickr") for part in ("test_2016", "test_2018")}
    name = f"multi30k-{'-'.join(languages)}/{name}"
    return Case(name, recipe, files("train"), files("val"), tests, [BLEU], seeds, some)


def g2p(
    language: str,
    recipe: str | None = "g2p.yaml",
    *,
    suffix: str = "",
    seeds: Sequence[int] = (1,),
    some: int | None = None,
) -> Case:
    """Case of a language of SIGMORPHON 2021."""
    train, dev, test = ([f"g2p/{language}_{part}.tsv"] for part in ("train", "dev", "test"))
    return Case(f"g2p/{language}{suffix}", recipe, train, dev, {"test": test}, ERROR_RATES, seeds, some)


CMUDICT = {part: [f"cmudict/eng_cmudict_{part}.tsv"] for part in ("train", "dev", "test")}
CASES: list[Case | Mixture] = [
    *(g2p(language, seeds=THREE if language in ("dut", "fre", "kor") else (1,)) for language in MEDIUM),
    g2p("ice", None, suffix="/default"),
    *(g2p(language, "g2p-transformer.yaml", suffix="/transformer") for language in ("dut", "fre")),
    multi30k("transformer", "multi30k-transformer.yaml", seeds=THREE),
    multi30k("additive", "multi30k-de-en.yaml"),
    Mixture(
        "multi30k-de-en/ensemble",
        [("multi30k-de-en/transformer", 1), ("multi30k-de-en/transformer", 2), ("multi30k-de-en/additive", 1)],
    ),
    multi30k("no-attention", "multi30k-no-attention.yaml"),
    multi30k("default", None, to="de"),
    g2p("fre", None, suffix="/default"),
    g2p("fre", None, suffix="/default-1000", some=1000),
    g2p("fre", None, suffix="/default-100", some=100),
    multi30k("default", None),
    multi30k("default-1000", None, some=1000),
    multi30k("default-100", None, some=100),
    Case("cmudict", "cmudict.yaml", CMUDICT["train"], CMUDICT["dev"], {"test": CMUDICT["test"]}, ERROR_RATES),
]  # fmt: skip
BY_NAME = {case.name: case for case in CASES if isinstance(case, Case)}


def kept_records() -> list[Record]:
    """Read the records written so far."""
    return [Record(**r) for r in json.loads(FILE.read_text(encoding="utf-8"))] if FILE.exists() else []


def change_records(change: Callable[[list[Record]], list[Record]]) -> None:
    """Change the records and write them, under a lock for other instances of this program."""
    with open(__file__) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        order = [case.name for case in CASES]
        records = change(kept_records())
        records.sort(key=lambda r: (order.index(r.case) if r.case in order else len(order), r.test, r.seeds))
        rows = ",\n".join(json.dumps(asdict(r), ensure_ascii=False) for r in records)
        partial = FILE.with_suffix(".new")
        partial.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
        partial.replace(FILE)


class Bench:
    """Trains and evaluates cases, with data in the directory ``data`` and run directories in ``runs``.

    force: train and evaluate existing runs again; for a mixture, only evaluate it again.
    note: text added to the description of the machine.
    """

    def __init__(self, data: Path, runs: Path, threads: int, *, force: bool, note: str) -> None:
        self.data, self.runs, self.threads, self.force, self.note = data, runs, threads, force, note

    def run(self, case: Case | Mixture, max_seeds: int) -> None:
        """Train and evaluate the missing runs of a case, with at most ``max_seeds`` seeds."""
        if isinstance(case, Mixture):
            runs = [(BY_NAME[name], seed) for name, seed in case.runs]
            for run in runs:
                self.train(*run)
            if self.force:
                change_records(lambda records: [r for r in records if r.case != case.name])
            self.measure(case, runs)
            return
        runs = [(case, seed) for seed in case.seeds[:max_seeds]]
        for run in runs:
            if self.force:
                self.remove(*run)
            self.train(*run)
            self.measure(case, [run])
        if 1 < len(case.seeds) <= max_seeds:
            self.measure(case, runs)

    def remove(self, case: Case, seed: int) -> None:
        """Remove a run, its records, and those of ensembles of its case."""
        change_records(lambda records: [r for r in records if r.case != case.name or seed not in r.seeds])
        shutil.rmtree(self.folder(case, seed), ignore_errors=True)

    def folder(self, case: Case, seed: int) -> Path:
        """Run directory."""
        return self.runs / case.name / str(seed)

    def train(self, case: Case, seed: int) -> None:
        """Train one run, in a separate process."""
        folder = self.folder(case, seed)
        if (folder / "minutes").exists():
            return
        shutil.rmtree(folder, ignore_errors=True)  # the duration of an interrupted run is unknown
        begin, where = time.monotonic(), machine(self.threads, self.note)
        self.seqloom(*self.command(case, seed))
        (folder / "machine").write_text(where + "\n")
        (folder / "minutes").write_text(f"{(time.monotonic() - begin) / 60:.3f}\n")

    def command(self, case: Case, seed: int) -> list[str]:
        """Arguments of the command that trains a run."""
        recipe = [] if case.recipe is None else [str(RECIPES / case.recipe)]
        train = self.files(case.train) if case.some is None else self.parts(case.train, case.some)
        given = ["--train", *train, "--dev", *self.files(case.dev)]
        seeded = [] if case.recipe is None else ["--set", f"seed={seed}"]
        return ["train", *recipe, *given, *seeded, "--out", str(self.folder(case, seed))]

    def parts(self, below: Sequence[str], lines: int) -> list[str]:
        """Write files with some lines of the data files, evenly spaced, since the files may be sorted."""
        made = [self.runs / f"some-{lines}" / name for name in below]
        for name, file in zip(self.files(below), made, strict=True):
            every = Path(name).read_text(encoding="utf-8").splitlines(keepends=True)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(every[n * len(every) // lines] for n in range(lines)), encoding="utf-8")
        return [str(file) for file in made]

    def files(self, below: Sequence[str]) -> list[str]:
        """Paths of files in the data directory."""
        return [str(self.data / name) for name in below]

    def measure(self, case: Case | Mixture, runs: list[tuple[Case, int]]) -> None:
        """Evaluate one run, or an ensemble of several, on every test set."""
        seeds = [seed for _, seed in runs]
        first = runs[0][0]
        for test, files in first.tests.items():
            if any((r.case, r.test, r.seeds) == (case.name, test, seeds) for r in kept_records()):
                continue
            metrics = [part for metric in first.metrics for part in ("--metric", metric)]
            command = ["evaluate", *(str(self.folder(*run)) for run in runs), "--data", *self.files(files), *metrics]
            found = json.loads(self.seqloom(*command, "--json"))
            self.keep(case, test, runs, command if isinstance(case, Mixture) else self.command(*runs[0]), found)

    def keep(
        self,
        case: Case | Mixture,
        test: str,
        runs: list[tuple[Case, int]],
        shown: list[str],
        found: dict[str, Any],
    ) -> None:
        """Add a record to the results."""
        first = next(iter(found["metrics"]))
        seeds = [seed for _, seed in runs]
        record = Record(
            case=case.name,
            test=test,
            seeds=seeds,
            minutes=[round(float((self.folder(*run) / "minutes").read_text()), 1) for run in runs],
            metrics={
                label: {"value": m["value"], "interval": m["interval"], "signature": m["signature"]}
                for label, m in found["metrics"].items()
            },
            by_length=[
                {"low": b["low"], "high": b["high"], "examples": b["examples"], "value": b["values"][first]}
                for b in found["by_source_length"]
            ],
            parameters=sum(self.parameters(self.folder(*run)) for run in runs),
            command=shlex.join(["seqloom", *map(self.anywhere, shown)]),
            machine="; ".join(dict.fromkeys((self.folder(*run) / "machine").read_text().strip() for run in runs)),
        )
        change_records(lambda records: [*records, record])
        value, low, high = (record.metrics[first]["value"], *record.metrics[first]["interval"])
        runs_shown = f"seed {seeds[0]}" if len(seeds) == 1 else f"ensemble of {len(seeds)}"
        print(f"{case.name} {test}, {runs_shown}: {first} {value:.2f} ({low:.2f} – {high:.2f})", flush=True)

    def anywhere(self, argument: str) -> str:
        """Replace the directories of this machine by names."""
        for place, name in ((self.data, "DATA"), (RECIPES, "recipes"), (self.runs, "RUNS")):
            if Path(argument).is_relative_to(place):
                return str(name / Path(argument).relative_to(place))
        return argument

    def parameters(self, folder: Path) -> int:
        """Number of parameters of a run."""
        from safetensors import safe_open

        with safe_open(folder / "model.safetensors", "numpy") as weights:  # type: ignore[no-untyped-call]
            return sum(weights.get_tensor(name).size for name in weights.keys())  # noqa: SIM118

    def seqloom(self, *arguments: str) -> str:
        """Run a command of seqloom, show its progress, and return its output."""
        threads = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        program = [sys.executable, "-m", "seqloom", *arguments]
        done = subprocess.run(program, env=os.environ | threads, stdout=subprocess.PIPE, check=True, text=True)
        return done.stdout


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Quality of models on public data, trained with the recipes.")
    parser.add_argument("data", type=Path, help="data directory with multi30k/, g2p/ and cmudict/")
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="run only these cases")
    parser.add_argument("--seeds", type=int, default=3, help="maximum number of seeds per case (%(default)s)")
    parser.add_argument("--runs", type=Path, default=Path("runs/quality"), help="directory of the runs (%(default)s)")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of training (%(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="train and evaluate existing runs again")
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="note on the machine for the results, such as parallel work"
    )
    parser.add_argument("--list", action="store_true", help="list the names of the cases and exit")
    options = parser.parse_args()
    names = [case.name for case in CASES]
    if options.list:
        print("\n".join(names))
        return
    unknown = [name for name in options.cases or () if name not in names]
    if unknown:
        parser.error(f"unknown case: {', '.join(unknown)}; the cases are {', '.join(names)}")
    folders = options.data.resolve(), options.runs.resolve()
    bench = Bench(*folders, options.threads, force=options.force, note=options.note)
    for case in CASES:
        if not options.cases or case.name in options.cases:
            bench.run(case, options.seeds)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.CalledProcessError as error:  # the command has reported the error
        sys.exit(error.returncode)
