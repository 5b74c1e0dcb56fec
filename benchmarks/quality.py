"""How good models get on public data, each trained by its recipe, from the command to the figure.

    .venv/bin/python benchmarks/quality.py DATA                    # everything that is not there yet: many hours
    .venv/bin/python benchmarks/quality.py DATA --cases g2p/fre    # only this
    .venv/bin/python benchmarks/quality.py DATA --cases g2p/fre --again   # with the version of today
    .venv/bin/python benchmarks/quality.py DATA --list             # what there is

A case is a corpus and a recipe. Its runs differ by their seeds alone; a run that is finished is not trained again,
unless by ``--again``, which first forgets what was measured of it.
They are trained with ``seqloom train`` and measured with ``seqloom evaluate``, each in a process of its own, and the
minutes are those of the whole training command. Where a case has several runs, all of them together are measured too,
as an ensemble (the mean of their probabilities); a mixture is an ensemble of the runs of several cases. The test set
is looked at once, when training is over; what stops training and chooses weights is the dev set.

``results/quality.json`` has a record for every run, ensemble and test set; it is written after each. Several of this
program may run at once, each with cases and ``--threads`` of its own.
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
MEDIUM = ("arm_e", "bul", "dut", "fre", "geo", "hbs_latn", "hun", "jpn_hira", "kor", "vie_hanoi")
THREE = (1, 2, 3)


@dataclass(frozen=True)
class Case:
    """A corpus and a recipe.

    recipe: its file; None: no option is set at all.
    train, dev: files below the data folder.
    tests: by the name of the test set.
    metrics: the first is what the case is about.
    seeds: one run for each.
    some: only so many pairs of train.
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
    """An ensemble of runs of several cases, each a case's name and a seed; its test sets are those of the first."""

    name: str
    runs: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Record:
    """What a run, or an ensemble of several, reached on a test set.

    seeds: of each of the runs.
    minutes: of training, for each of the runs.
    parameters: of all runs together.
    metrics: value, interval and signature of each, by its label; the first is what the case is about.
    by_length: the examples of each bucket of source lengths, and the first metric's value on them.
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
    """A case of Multi30k between German and English."""
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
    """A language of SIGMORPHON 2021."""
    train, dev, test = ([f"g2p/{language}_{part}.tsv"] for part in ("train", "dev", "test"))
    return Case(f"g2p/{language}{suffix}", recipe, train, dev, {"test": test}, ["wer", "ser"], seeds, some)


CMUDICT = {part: [f"cmudict/eng_cmudict_{part}.tsv"] for part in ("train", "dev", "test")}
CASES: list[Case | Mixture] = [
    *(g2p(language, seeds=THREE if language in ("dut", "fre", "kor") else (1,)) for language in MEDIUM),
    g2p("ice", None, suffix="/default"),
    *(g2p(language, "g2p-transformer.yaml", suffix="/transformer") for language in ("dut", "fre")),
    multi30k("transformer", "multi30k-transformer.yaml", seeds=THREE),
    multi30k("additive", "multi30k-de-en.yaml"),
    Mixture(
        "multi30k-de-en/mixture",
        [("multi30k-de-en/transformer", 1), ("multi30k-de-en/transformer", 2), ("multi30k-de-en/additive", 1)],
    ),
    multi30k("none", "multi30k-none.yaml"),
    multi30k("default", None, to="de"),
    g2p("fre", None, suffix="/default"),
    g2p("fre", None, suffix="/default-1000", some=1000),
    g2p("fre", None, suffix="/default-100", some=100),
    multi30k("default", None),
    multi30k("default-1000", None, some=1000),
    multi30k("default-100", None, some=100),
    Case("cmudict", "cmudict.yaml", CMUDICT["train"], CMUDICT["dev"], {"test": CMUDICT["test"]}, ["wer", "ser"]),
]  # fmt: skip
BY_NAME = {case.name: case for case in CASES if isinstance(case, Case)}


def kept_records() -> list[Record]:
    """What was measured so far."""
    return [Record(**r) for r in json.loads(FILE.read_text(encoding="utf-8"))] if FILE.exists() else []


def change_records(change: Callable[[list[Record]], list[Record]]) -> None:
    """Write what becomes of the records; whoever else runs this program waits."""
    with open(__file__) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        order = [case.name for case in CASES]
        records = change(kept_records())
        records.sort(key=lambda r: (order.index(r.case) if r.case in order else len(order), r.test, r.seeds))
        rows = ",\n".join(json.dumps(asdict(r), ensure_ascii=False) for r in records)
        beside = FILE.with_suffix(".new")
        beside.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
        beside.replace(FILE)


class Bench:
    """Trains and measures cases; runs are folders below ``runs``, data is below ``data``.

    again: runs that are there already are trained and measured again; those of a mixture only measured together.
    note: what else is to be said of the machine.
    """

    def __init__(self, data: Path, runs: Path, threads: int, *, again: bool, note: str) -> None:
        self.data, self.runs, self.threads, self.again, self.note = data, runs, threads, again, note

    def do(self, case: Case | Mixture, most: int) -> None:
        """Every run of a case that is not there yet, at most so many, and what is measured of it."""
        if isinstance(case, Mixture):
            runs = [(BY_NAME[name], seed) for name, seed in case.runs]
            for run in runs:
                self.train(*run)
            if self.again:
                change_records(lambda records: [r for r in records if r.case != case.name])
            self.measure(case, runs)
            return
        runs = [(case, seed) for seed in case.seeds[:most]]
        for run in runs:
            if self.again:
                self.forget(*run)
            self.train(*run)
            self.measure(case, [run])
        if 1 < len(case.seeds) <= most:
            self.measure(case, runs)

    def forget(self, case: Case, seed: int) -> None:
        """A run, and what was measured of it alone and together with others of its case."""
        change_records(lambda records: [r for r in records if r.case != case.name or seed not in r.seeds])
        shutil.rmtree(self.folder(case, seed), ignore_errors=True)

    def folder(self, case: Case, seed: int) -> Path:
        """Where a run is."""
        return self.runs / case.name / str(seed)

    def train(self, case: Case, seed: int) -> None:
        """One run, in a process of its own."""
        folder = self.folder(case, seed)
        if (folder / "minutes").exists():
            return
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was interrupted, nobody knows the minutes
        begin, where = time.monotonic(), machine(self.threads, self.note)
        self.seqloom(*self.command(case, seed))
        (folder / "machine").write_text(where + "\n")
        (folder / "minutes").write_text(f"{(time.monotonic() - begin) / 60:.3f}\n")

    def command(self, case: Case, seed: int) -> list[str]:
        """What trains a run."""
        recipe = [] if case.recipe is None else [str(RECIPES / case.recipe)]
        train = self.files(case.train) if case.some is None else self.parts(case.train, case.some)
        given = ["--train", *train, "--dev", *self.files(case.dev)]
        seeded = [] if case.recipe is None else ["--set", f"seed={seed}"]
        return ["train", *recipe, *given, *seeded, "--out", str(self.folder(case, seed))]

    def parts(self, below: Sequence[str], lines: int) -> list[str]:
        """Files with some of the lines of files of the data folder, evenly from all of each: they may be sorted."""
        made = [self.runs / f"some-{lines}" / name for name in below]
        for name, file in zip(self.files(below), made, strict=True):
            every = Path(name).read_text(encoding="utf-8").splitlines(keepends=True)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(every[n * len(every) // lines] for n in range(lines)), encoding="utf-8")
        return [str(file) for file in made]

    def files(self, below: Sequence[str]) -> list[str]:
        """Files of the data folder."""
        return [str(self.data / name) for name in below]

    def measure(self, case: Case | Mixture, runs: list[tuple[Case, int]]) -> None:
        """One run, or several together, on every test set."""
        seeds = [seed for _, seed in runs]
        first = runs[0][0]
        for test, files in first.tests.items():
            if any((r.case, r.test, r.seeds) == (case.name, test, seeds) for r in kept_records()):
                continue
            asked = [part for metric in first.metrics for part in ("--metric", metric)]
            command = ["evaluate", *(str(self.folder(*run)) for run in runs), "--data", *self.files(files), *asked]
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
        """Add a record."""
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
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} together"
        print(f"{case.name} {test}, {which}: {first} {value:.2f} ({low:.2f} – {high:.2f})", flush=True)

    def anywhere(self, argument: str) -> str:
        """An argument as it is shown: places of this machine have names."""
        for place, name in ((self.data, "DATA"), (RECIPES, "recipes"), (self.runs, "RUNS")):
            if Path(argument).is_relative_to(place):
                return str(name / Path(argument).relative_to(place))
        return argument

    def parameters(self, folder: Path) -> int:
        """How many numbers a run has learned."""
        from safetensors import safe_open

        with safe_open(folder / "model.safetensors", "numpy") as weights:  # type: ignore[no-untyped-call]
            return sum(weights.get_tensor(name).size for name in weights.keys())  # noqa: SIM118

    def seqloom(self, *arguments: str) -> str:
        """A command of seqloom's; its progress is shown, its result returned."""
        threads = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        program = [sys.executable, "-m", "seqloom", *arguments]
        done = subprocess.run(program, env=os.environ | threads, stdout=subprocess.PIPE, check=True, text=True)
        return done.stdout


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="How good models get on public data, by the recipes.")
    parser.add_argument("data", type=Path, help="the folder with multi30k/, g2p/ and cmudict/")
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--seeds", type=int, default=3, help="at most so many runs of a case (%(default)s)")
    parser.add_argument("--runs", type=Path, default=Path("runs/quality"), help="where runs are (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of training (%(default)s)")
    parser.add_argument("--again", action="store_true", help="train and measure again what is already there")
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="added to the line on the machine: what else it did"
    )
    parser.add_argument("--list", action="store_true", help="only say what cases there are")
    options = parser.parse_args()
    names = [case.name for case in CASES]
    if options.list:
        print("\n".join(names))
        return
    unknown = [name for name in options.cases or () if name not in names]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(names)}")
    folders = options.data.resolve(), options.runs.resolve()
    bench = Bench(*folders, options.threads, again=options.again, note=options.note)
    for case in CASES:
        if not options.cases or case.name in options.cases:
            bench.do(case, options.seeds)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.CalledProcessError as error:  # what was wrong has been said already
        sys.exit(error.returncode)
