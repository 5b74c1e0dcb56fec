"""Compare the default tokenizers and validation metric with explicit choices, on small data sets of different kinds.

    .venv/bin/python benchmarks/defaults.py DATA                 # DATA/g2p, DATA/multi30k, DATA/code/django
    .venv/bin/python benchmarks/defaults.py DATA --cases query tags
    .venv/bin/python benchmarks/defaults.py --alignment          # accuracy of alignments, on generated data

For each data set, one run uses the default tokenizers and validation metric. The other runs set both tokenizers to
``character``, ``whitespace`` or ``bpe``, and the validation metric to the test metric of the data set. All other
settings (``SAME``) are equal, and small, so that a run takes about a minute. A choice equal to the default is not
trained again. The test set is evaluated with the default search and length limits of each run.

``results/defaults.json`` has one record per data set; ``results/defaults.txt`` shows them as a table.
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
    "model.hidden_size": 128,
    "model.dropout": 0.2,
    "train.updates": 800,
    "train.batch_sentences": 16,
    "train.evaluate_every": 200,
    "train.optimizer.lr": 3e-3,
    "train.device": "cpu",
}
CHOICES = ("character", "whitespace", "bpe")


@dataclass(frozen=True)
class Fit(Row):
    """Scores of the default and of each explicit choice of tokenizers on one data set.

    chosen: the default tokenizers and the default validation metric.
    gap: best score of an explicit choice minus the score of the default, in points; negative if the default is best.
    """

    case: str
    pairs: int
    metric: str
    chosen: str
    default: float
    character: float
    whitespace: float
    bpe: float
    gap: float

    columns: ClassVar[Mapping[str, str]] = {
        "data set": "", "pairs": ",", "metric": "", "default’s choice": "", "default": ".1f",
        "character": ".1f", "whitespace": ".1f", "bpe": ".1f", "gap": ".1f",
    }  # fmt: skip


def train(data_set: DataSet, overrides: Mapping[str, Any], folder: Path) -> Any:
    """Train a model on a data set."""
    import seqloom

    return seqloom.fit(data_set.train, dev=data_set.dev, overrides={**SAME, **overrides}, out=folder, quiet=True)


def evaluate(data_set: DataSet, model: Any) -> float:
    """Score on the test set."""
    report = model.evaluate(data_set.test, metrics=[data_set.metric], bootstrap=0)
    value: float = report[data_set.metric].value
    return round(value, 2)


def compare(data_set: DataSet) -> Fit:
    """Train and evaluate the default and every explicit choice on one data set."""
    with tempfile.TemporaryDirectory() as folder:
        model = train(data_set, {}, Path(folder) / "default")
        default, names = evaluate(data_set, model), tokenizer_names(model)
        scores = {}
        for choice in CHOICES:
            if names == (choice, choice):
                scores[choice] = default
                continue
            overrides = {
                "data.source_tokenizer": choice,
                "data.target_tokenizer": choice,
                "train.validation_metric": data_set.metric,
            }
            scores[choice] = evaluate(data_set, train(data_set, overrides, Path(folder) / choice))
    metric = model.config.train.validation_metric["name"]
    gap = round(max(scores.values()) - default, 2)
    chosen = f"{names[0]} → {names[1]}, {metric}"
    return Fit(data_set.name, len(data_set.train), data_set.metric, chosen, default, **scores, gap=gap)


def tokenizer_names(model: Any) -> tuple[str, str]:
    """Names of the source and target tokenizers."""
    return model.fields["source"].trainer.name, model.fields["target"].trainer.name


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Compare the default tokenizers and metric with explicit choices.")
    parser.add_argument("data", type=Path, nargs="?", help="data directory with g2p/, multi30k/ and code/")
    parser.add_argument(
        "--cases", nargs="+", metavar="NAME", help="run only these data sets; without --out, results are only printed"
    )
    parser.add_argument(
        "--alignment", action="store_true", help="only measure the alignment accuracy of attention, on generated data"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of training (%(default)s)")
    parser.add_argument("--out", type=Path, help="directory of the results (benchmarks/results)")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    import torch

    torch.set_num_threads(options.threads)
    if options.alignment:
        from defaults_alignment import alignment

        print(json.dumps(alignment(), indent=2))
        return
    if options.data is None:
        parser.error("DATA is missing: give the data directory")
    records = []
    out = options.out or (None if options.cases else RESULTS)
    for data_set in data_sets(options.data):
        if options.cases and data_set.name not in options.cases:
            continue
        records.append(compare(data_set))
        print(table(records[-1:]).splitlines()[-1], flush=True)
        if out is not None:
            write("defaults", records, f"{machine(options.threads)}\n\n{table(records)}", out)


if __name__ == "__main__":
    main()
