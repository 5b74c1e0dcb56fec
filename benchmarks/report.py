"""Write ``docs/results.md`` from the files in ``benchmarks/results``. No figure of seqloom on that page is typed.

.venv/bin/python benchmarks/report.py
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

BENCHMARKS = Path(__file__).parent
RESULTS = BENCHMARKS / "results"
PAGE = BENCHMARKS.parent / "docs" / "results.md"
Record = dict[str, Any]

BASELINE = {
    "arm_e": 7.0, "bul": 18.3, "dut": 14.7, "fre": 8.5, "geo": 0.0, "hbs_latn": 32.1, "hun": 1.8, "jpn_hira": 5.2,
    "kor": 16.3, "vie_hanoi": 2.5, "ice": 12.0,
}  # fmt: skip
"""Test SER of the ensembled baseline of SIGMORPHON 2021, task 1 (Ashby et al. 2021)."""

VERSION = re.compile(r", seqloom ([^,]+), ")
"""The commit in a line about the machine."""

TO_GERMAN = """\
Published for English to German, test_2016: 41.0 BLEU, lowercased and tokenized, by a small Transformer (Wu et al.
2021). BLEU differs by a few tenths between tokenizations."""

UNVERSIONED = """\
A date in place of the commit means that the commit was not recorded. Those runs differ from the current version:
there is no exponential moving average of the weights (their recipes set `ema_decay: 0`); recurrent models do not
scale their embeddings; source embeddings are initialized with variance 1/size (2026-11-16) or 1 (2026-11-17); and on
2026-11-16, untied output layers have smaller initial weights. Repeating these runs can give other figures.
"""

ENSEMBLE = """\
`multi30k-de-en/ensemble` consists of the two Transformers and the model with additive attention."""

SEARCH = """\
CTranslate2 was measured with two threads per batch here. With one single-threaded worker for each half of a batch, as
`decode.py` now has, it is 1.7 to 4.9 times as fast: see [Engines](#engines) for a trained Transformer.
"""

RECURRENT_WINS = """\
**Recurrent models and Transformers**, SER: {comparisons}.

With the same data, the recurrent model is better and trains in less than half the time. A likely reason: the
alignment of graphemes and phonemes is almost monotonic, which suits a recurrence, while a Transformer has to learn
the order from 8,000 words."""

LOW_RESOURCE_WORDS = """\
**Low-resource data**: `…/default` sets no options, and `-1000` and `-100` use that many pairs of the same file. From
1,000 words, the model learns to pronounce most unseen words. From 100 words, most phonemes are right, but almost
every word has an error: enough to check that the data is read correctly, not for use."""

LOW_RESOURCE_SENTENCES = """\
**Low-resource data**: `-1000` and `-100` use that many training pairs, with no options set. From 1,000 pairs the
model learns frequent words and sentence structure; from 100, little more than the structure."""

HEAD = """\
# Results

[Quality](#quality) · [Speed](#speed)

`benchmarks/report.py` writes this page from the files in `benchmarks/results`; all figures on it were measured. To
repeat one, run the command next to it with a directory that contains the data. The methods are described in
[benchmarks/README.md](../benchmarks/README.md) and in the docstring of each benchmark.
"""


def page(results: Path = RESULTS) -> str:
    """Return the text of the page."""
    parts = [HEAD]
    if (results / "quality.json").exists():
        records = json.loads((results / "quality.json").read_text(encoding="utf-8"))
        parts += quality(records)
    parts += speed(results)
    return "\n".join(parts)


# -- quality


def quality(records: list[Record]) -> list[str]:
    """Section on the quality of models on public data."""
    parts = [
        "## Quality\n\n"
        "`.venv/bin/python benchmarks/quality.py DATA --cases CASE` trains a case with its recipe and evaluates it.\n"
        "Intervals are 95 % bootstrap confidence intervals over the test set. The seed is that of training; several\n"
        "seeds: an ensemble of that many runs. Minutes are the duration of the training command, for each run.\n"
        "Early stopping and checkpoint selection used the validation set only. SER is the sequence error rate (the\n"
        "percentage of outputs that match no reference), PER the phoneme error rate.\n\n"
        "The column *commit* names the commit of seqloom that was measured.\n"
    ]
    if any(commit(r) is None for r in records):
        parts.append(UNVERSIONED)
    groups: tuple[tuple[str, str, Callable[[list[Record]], str]], ...] = (
        ("multi30k", "Machine translation: Multi30k", translation),
        ("g2p", "Grapheme-to-phoneme: SIGMORPHON 2021, task 1", pronunciation),
        ("cmudict", "Grapheme-to-phoneme: CMUdict without stress", pronunciation),
    )
    for prefix, title, show in groups:
        chosen = [r for r in records if r["case"].startswith(prefix)]
        if chosen:
            parts.append(f"### {title}\n\n{show(chosen)}")
    parts.append("### Commands and machines\n\n" + commands(records))
    return parts


def translation(records: list[Record]) -> str:
    """BLEU by test set, and by source length."""
    label = first_label(records[0])
    tests = sorted({r["test"] for r in records})
    rows = []
    for case, seeds in unique((r["case"], tuple(r["seeds"])) for r in records):
        by_test = {r["test"]: r for r in records if (r["case"], tuple(r["seeds"])) == (case, seeds)}
        one = next(iter(by_test.values()))
        values = [with_interval(by_test[t], label) if t in by_test else "" for t in tests]
        size = f"{one['parameters'] / 1e6:.1f} M"
        rows.append([f"`{case}`", seeds_of(one), *values, minutes(one), size, commit_or_date(one)])
    text = table(["case", "seed", *(f"{t}, BLEU" for t in tests), "minutes", "parameters", "commit"], rows)
    signature = records[0]["metrics"][label]["signature"]
    published = f"\n{TO_GERMAN}\n" if any(r["case"].startswith("multi30k-en-de") for r in records) else ""
    lengths = by_length([r for r in records if r["test"] == tests[0]])
    ensemble = f"\n{ENSEMBLE}\n" if any(r["case"] == "multi30k-de-en/ensemble" for r in records) else ""
    little = f"\n{LOW_RESOURCE_SENTENCES}\n" if any(r["case"].endswith("-100") for r in records) else ""
    notes = f"{signature}\n{ensemble}{published}"
    return f"{text}\n{notes}\n**BLEU by source length** in tokens, {tests[0]}:\n\n{lengths}{little}"


def by_length(records: list[Record]) -> str:
    """The first metric in every bucket of source lengths, with one table per set of buckets."""
    parts = []
    for buckets in unique(bounds(r) for r in records):
        labels = [f"{low}+" if high is None else f"{low}–{high}" for low, high in buckets]
        rows = [
            [f"`{r['case']}`", seeds_of(r), *(f"{b['value']:.1f}" for b in r["by_length"])]
            for r in records
            if bounds(r) == buckets
        ]
        parts.append(table(["case", "seed", *labels], rows))
    return "\n".join(parts)


def bounds(record: Record) -> tuple[tuple[int, int | None], ...]:
    """Bounds of the buckets of source lengths."""
    return tuple((b["low"], b["high"]) for b in record["by_length"])


def pronunciation(records: list[Record]) -> str:
    """Sequence and phoneme error rates, and the published baseline if there is one."""
    rows = []
    for r in records:
        sequence_error_rate, per = (r["metrics"][label]["value"] for label in list(r["metrics"])[:2])
        published = BASELINE.get(r["case"].split("/")[1]) if "/" in r["case"] else None
        low, high = r["metrics"][first_label(r)]["interval"]
        rows.append(
            [
                f"`{r['case']}`",
                seeds_of(r),
                f"{sequence_error_rate:.1f} ({low:.1f} – {high:.1f})",
                f"{per:.2f}",
                "" if published is None else f"{published:.1f}",
                minutes(r),
                commit_or_date(r),
            ]
        )
    text = table(["case", "seed", "SER, %", "PER, %", "published SER, %", "minutes", "commit"], rows)
    singles = {r["case"]: r["metrics"][first_label(r)]["value"] for r in records if r["seeds"] == [1]}
    medium = [f"g2p/{language}" for language in BASELINE if language != "ice"]
    if all(case in singles for case in medium):
        ours, published = mean(singles[case] for case in medium), mean(BASELINE[c.split("/")[1]] for c in medium)
        text += (
            f"\nMean SER of the ten medium-resource languages, seed 1: **{ours:.2f} %**. The published baseline, an "
            f"ensemble, has {published:.2f} %.\n"
        )
    if "g2p" in records[0]["case"]:
        text += "\nPublished: the ensembled baseline of the shared task (Ashby et al. 2021).\n"
    both = [case for case in singles if f"{case}/transformer" in singles]
    if both and all(singles[case] < singles[f"{case}/transformer"] for case in both):
        comparisons = ", ".join(
            f"`{c}` {singles[c]:.1f} % recurrent, {singles[f'{c}/transformer']:.1f} % Transformer" for c in both
        )
        text += f"\n{RECURRENT_WINS.format(comparisons=comparisons)}\n"
    if any(case.endswith("-100") for case in singles):
        text += f"\n{LOW_RESOURCE_WORDS}\n"
    return text


def commands(records: list[Record]) -> str:
    """The command and the machine of every case."""
    shown = unique((r["case"], r["command"], r["machine"]) for r in records)
    machines = unique(machine for *_, machine in shown)
    lines = [f"- `{case}`: `{command}` [{machines.index(machine) + 1}]" for case, command, machine in shown]
    return "\n".join([*lines, "", *(f"[{n}] {machine}\n" for n, machine in enumerate(machines, start=1))])


def first_label(record: Record) -> str:
    return str(next(iter(record["metrics"])))


def seeds_of(record: Record) -> str:
    seeds = record["seeds"]
    return f"{seeds[0]}" if len(seeds) == 1 else f"{', '.join(map(str, seeds))} (ensemble)"


def minutes(record: Record) -> str:
    return ", ".join(f"{m:.1f}" for m in record["minutes"])


def with_interval(record: Record, label: str) -> str:
    low, high = record["metrics"][label]["interval"]
    return f"{record['metrics'][label]['value']:.2f} ({low:.1f} – {high:.1f})"


def commit(record: Record) -> str | None:
    """The commit that was measured, if it was recorded."""
    match = VERSION.search(record["machine"])
    return match[1] if match else None


def commit_or_date(record: Record) -> str:
    found = commit(record)
    return f"`{found}`" if found else str(record["machine"].rpartition(", ")[2])


# -- speed


def speed(results: Path) -> list[str]:
    """Section on speed: the tables that the benchmarks have written, unchanged."""
    titles = {
        "train_step": ("Training step", ""),
        "train_corpus": ("Training on a corpus", " DATA"),
        "time_to_quality": ("Time to quality", " DATA"),
        "decode": ("Search", ""),
        "engines": ("Engines", " RUN --data DATA/multi30k/test_2016_flickr.de DATA/multi30k/test_2016_flickr.en"),
        "prepare": ("A corpus of 10 million pairs", " --multi30k DATA/multi30k --out benchmarks/results"),
    }
    parts = [
        "## Speed\n\n"
        "The line above each table has the machine, the date, the commit of seqloom if it was recorded, and the\n"
        "number of rounds that every figure is the median of. A ratio above 1 means that seqloom is faster; in\n"
        "*Engines*, that the engine is faster than PyTorch.\n"
    ]
    for name, (title, arguments) in titles.items():
        if (results / f"{name}.txt").exists():
            text = (results / f"{name}.txt").read_text(encoding="utf-8").rstrip()
            parts.append(f"### {title}\n\n`.venv/bin/python benchmarks/{name}.py{arguments}`\n\n```\n{text}\n```\n")
            if name == "decode" and not VERSION.search(text):
                parts.append(SEARCH)
    return parts


# -- writing


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table; all columns except the first are right-aligned."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def unique(things: Iterable[Any]) -> list[Any]:
    """Remove duplicates, keeping the order of first appearance."""
    return list(dict.fromkeys(things))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
