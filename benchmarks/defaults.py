"""Do the defaults fit? Small data sets of different kinds, the default tokenizers and metric against explicit ones.

    .venv/bin/python benchmarks/defaults.py DATA                 # DATA/g2p, DATA/multi30k, DATA/code/django
    .venv/bin/python benchmarks/defaults.py DATA --cases query tags
    .venv/bin/python benchmarks/defaults.py --alignment          # attention as alignment, on generated data

For each data set, one run leaves tokenizers and metric to seqloom; the others set characters, whole symbols or BPE
for both sides, and the metric that the data set is judged by. Everything else is the same for all of them, and small,
so that a run takes a minute: ``SAME``. A choice that the default made too is not trained again. The test set is
judged with the run's own search and length limits.

``results/defaults.json`` has a record per data set, and ``results/defaults.txt`` the same as a table.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from defaults_data import DataSet, data_sets
from harness.results import RESULTS, Row, machine, table, write

SAME = {
    "model.size": 128,
    "model.dropout": 0.2,
    "train.updates": 800,
    "train.batch_sentences": 16,
    "train.evaluate_every": 200,
    "train.optimiser.rate": 3e-3,
    "train.device": "cpu",
}
CHOICES = ("character", "symbols", "bpe")


@dataclass(frozen=True)
class Fit(Row):
    """What the default and each explicit choice of tokenizers reach on one data set.

    chosen: the default's tokenizers, and the metric that decided.
    behind: how far the default is behind the best explicit choice, in points; negative where it is ahead.
    """

    case: str
    pairs: int
    metric: str
    chosen: str
    default: float
    character: float
    symbols: float
    bpe: float
    behind: float

    columns: ClassVar[Mapping[str, str]] = {
        "data set": "", "pairs": ",", "metric": "", "default’s choice": "", "default": ".1f",
        "character": ".1f", "symbols": ".1f", "bpe": ".1f", "behind": ".1f",
    }  # fmt: skip


def trained(data_set: DataSet, settings: Mapping[str, Any], folder: Path) -> Any:
    """A model of a data set."""
    import seqloom

    return seqloom.fit(data_set.train, dev=data_set.dev, settings={**SAME, **settings}, out=folder, quiet=True)


def measured(data_set: DataSet, model: Any) -> float:
    """Its score on the test set."""
    report = model.evaluate(data_set.test, metrics=[data_set.metric], bootstrap=0)
    value: float = report[data_set.metric].value
    return round(value, 2)


def compared(data_set: DataSet) -> Fit:
    """The default and every explicit choice on one data set."""
    with tempfile.TemporaryDirectory() as folder:
        model = trained(data_set, {}, Path(folder) / "default")
        default, names = measured(data_set, model), tokenizer_names(model)
        scores = {}
        for choice in CHOICES:
            if names == (choice, choice):
                scores[choice] = default
                continue
            settings = {"data.source": choice, "data.target": choice, "train.metric": data_set.metric}
            scores[choice] = measured(data_set, trained(data_set, settings, Path(folder) / choice))
    decided = model.config.train.metric["name"]
    behind = round(max(scores.values()) - default, 2)
    chosen = f"{names[0]} → {names[1]}, {decided}"
    return Fit(data_set.name, len(data_set.train), data_set.metric, chosen, default, **scores, behind=behind)


def tokenizer_names(model: Any) -> tuple[str, str]:
    """Of both sides."""
    return model.fields["source"].cutter.name, model.fields["target"].cutter.name


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="The default tokenizers and metric against explicit choices.")
    parser.add_argument("data", type=Path, nargs="?", help="the folder with g2p/, multi30k/ and code/")
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="only these, written nowhere by default")
    parser.add_argument("--alignment", action="store_true", help="only measure attention as alignment")
    parser.add_argument("--threads", type=int, default=1, help="of training (%(default)s)")
    parser.add_argument("--out", type=Path, help="where to write (benchmarks/results)")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    import torch

    torch.set_num_threads(options.threads)
    if options.alignment:
        from defaults_alignment import alignment

        print(json.dumps(alignment(), indent=2))
        return
    if options.data is None:
        parser.error("name the folder with the data")
    records = []
    out = options.out or (None if options.cases else RESULTS)
    for data_set in data_sets(options.data):
        if options.cases and data_set.name not in options.cases:
            continue
        records.append(compared(data_set))
        print(table(records[-1:]).splitlines()[-1], flush=True)
        if out is not None:
            write("defaults", records, f"{machine(options.threads)}\n\n{table(records)}", out)


if __name__ == "__main__":
    main()
