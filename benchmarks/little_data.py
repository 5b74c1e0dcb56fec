"""Compare hidden sizes and numbers of epochs for low-resource data: a few hundred training pairs.

    .venv/bin/python benchmarks/little_data.py                # generated data sets, 200 and 800 pairs each
    .venv/bin/python benchmarks/little_data.py DATA           # also the public ones of ``defaults.py``
    .venv/bin/python benchmarks/little_data.py --pairs 200 --cases inflection query

Tokenizers and validation metric are the defaults. Every entry of ``SETTINGS`` trains one model per data set, which is
evaluated on the test set. ``results/little_data.json`` has one record per data set and number of pairs, and
``results/little_data.txt`` shows them as a table.
"""

import argparse
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

from defaults_data import DataSet, data_sets
from harness.results import RESULTS, Row, machine, table, write

SETTINGS: dict[str, dict[str, Any]] = {
    "small": {"model.hidden_size": 64, "model.dropout": 0.3, "train.batch_sentences": 4, "train.epochs": 80,
              "train.optimizer.lr": 3e-3},
    "medium": {"model.hidden_size": 128, "model.dropout": 0.4, "train.batch_sentences": 8, "train.epochs": 30,
               "train.optimizer.lr": 2e-3},
    "large": {"model.hidden_size": 256, "model.dropout": 0.3, "train.batch_sentences": 16, "train.epochs": 100,
              "train.optimizer.lr": 2e-3},
}  # fmt: skip
"""Overridden settings, by the name of their column."""


@dataclass(frozen=True)
class Little(Row):
    """Score of each entry of ``SETTINGS`` with some pairs of a data set, and the minutes of training."""

    case: str
    pairs: int
    metric: str
    small: float
    medium: float
    large: float
    minutes: str

    columns: ClassVar[Mapping[str, str]] = {
        "data set": "", "pairs": ",", "metric": "", "small": ".1f", "medium": ".1f", "large": ".1f",
        "minutes": "",
    }  # fmt: skip


def evaluate(data_set: DataSet, overrides: Mapping[str, Any]) -> tuple[float, float]:
    """Train; return the score on the test set and the minutes of training."""
    import seqloom

    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter()
        model = seqloom.fit(
            data_set.train, dev=data_set.dev, overrides={**overrides, "train.device": "cpu"}, out=folder, quiet=True
        )
        minutes = (perf_counter() - began) / 60
        report = model.evaluate(data_set.test, metrics=[data_set.metric], bootstrap=0)
    return round(report[data_set.metric].value, 2), minutes


def compare(data_set: DataSet, pairs: int) -> Little:
    """Train and evaluate every entry of ``SETTINGS`` on the first pairs of a data set."""
    cut = data_set._replace(train=data_set.train[:pairs])
    found = {name: evaluate(cut, overrides) for name, overrides in SETTINGS.items()}
    minutes = " / ".join(f"{spent:.1f}" for _, spent in found.values())
    scores = {name: score for name, (score, _) in found.items()}
    return Little(data_set.name, len(cut.train), data_set.metric, **scores, minutes=minutes)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Compare model sizes for low-resource data.")
    parser.add_argument(
        "data",
        type=Path,
        nargs="?",
        help="data directory with g2p/, multi30k/ and code/; default: generated data sets only",
    )
    parser.add_argument(
        "--cases", nargs="+", metavar="NAME", help="run only these data sets; without --out, results are only printed"
    )
    parser.add_argument(
        "--pairs", type=int, nargs="+", default=[200, 800], help="numbers of training pairs (200 and 800)"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of training (%(default)s)")
    parser.add_argument("--out", type=Path, help="directory of the results (benchmarks/results)")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    import torch

    torch.set_num_threads(options.threads)
    records = []
    out = options.out or (None if options.cases else RESULTS)
    for data_set in data_sets(options.data):
        for pairs in options.pairs:
            if options.cases and data_set.name not in options.cases:
                continue
            records.append(compare(data_set, pairs))
            print(table(records[-1:]).splitlines()[-1], flush=True)
            if out is not None:
                write("little_data", records, f"{machine(options.threads)}\n\n{table(records)}", out)


if __name__ == "__main__":
    main()
