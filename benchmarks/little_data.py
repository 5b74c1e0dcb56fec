"""Which sizes fit little data? Models of several sizes and lengths of training on a few hundred pairs.

    .venv/bin/python benchmarks/little_data.py                # generated data sets, 200 and 800 pairs each
    .venv/bin/python benchmarks/little_data.py DATA           # and the public ones of ``defaults.py``
    .venv/bin/python benchmarks/little_data.py --pairs 200 --cases inflection query

The tokenizers and the metric are the default ones. Each row of ``SETTINGS`` trains one model per data set, and the
test set judges it. ``results/little_data.json`` has a record per data set and size, ``.txt`` the same as a table.
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
    "small": {"model.size": 64, "model.dropout": 0.3, "train.batch_sentences": 4, "train.epochs": 80,
              "train.optimiser.rate": 3e-3},
    "medium": {"model.size": 128, "model.dropout": 0.4, "train.batch_sentences": 8, "train.epochs": 30,
               "train.optimiser.rate": 2e-3},
    "large": {"model.size": 256, "model.dropout": 0.3, "train.batch_sentences": 16, "train.epochs": 100,
              "train.optimiser.rate": 2e-3},
}  # fmt: skip
"""Options of training, by the name of their column."""


@dataclass(frozen=True)
class Little(Row):
    """What each size reaches on some pairs of a data set, and the minutes of its training."""

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


def reached(data_set: DataSet, settings: Mapping[str, Any]) -> tuple[float, float]:
    """The score on the test set, and the minutes of training."""
    import seqloom

    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter()
        model = seqloom.fit(
            data_set.train, dev=data_set.dev, settings={**settings, "train.device": "cpu"}, out=folder, quiet=True
        )
        minutes = (perf_counter() - began) / 60
        report = model.evaluate(data_set.test, metrics=[data_set.metric], bootstrap=0)
    return round(report[data_set.metric].value, 2), minutes


def compared(data_set: DataSet, pairs: int) -> Little:
    """Every size on the first pairs of a data set."""
    cut = data_set._replace(train=data_set.train[:pairs])
    found = {name: reached(cut, settings) for name, settings in SETTINGS.items()}
    minutes = " / ".join(f"{spent:.1f}" for _, spent in found.values())
    scores = {name: score for name, (score, _) in found.items()}
    return Little(data_set.name, len(cut.train), data_set.metric, **scores, minutes=minutes)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Sizes of model for little data.")
    parser.add_argument("data", type=Path, nargs="?", help="the folder with g2p/, multi30k/ and code/")
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="only these, written nowhere by default")
    parser.add_argument("--pairs", type=int, nargs="+", default=[200, 800], help="pairs to train on (200 and 800)")
    parser.add_argument("--threads", type=int, default=1, help="of training (%(default)s)")
    parser.add_argument("--out", type=Path, help="where to write (benchmarks/results)")
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
            records.append(compared(data_set, pairs))
            print(table(records[-1:]).splitlines()[-1], flush=True)
            if out is not None:
                write("little_data", records, f"{machine(options.threads)}\n\n{table(records)}", out)


if __name__ == "__main__":
    main()
