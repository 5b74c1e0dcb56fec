"""Writes ``docs/results.md`` from the files in ``benchmarks/results``: no figure on that page is typed.

.venv/bin/python benchmarks/report.py
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

BENCHMARKS = Path(__file__).parent
RESULTS = BENCHMARKS / "results"
PAGE = BENCHMARKS.parent / "docs" / "results.md"
Found = dict[str, Any]

BASELINE = {
    "arm_e": 7.0, "bul": 18.3, "dut": 14.7, "fre": 8.5, "geo": 0.0, "hbs_latn": 32.1, "hun": 1.8, "jpn_hira": 5.2,
    "kor": 16.3, "vie_hanoi": 2.5, "ice": 12.0,
}  # fmt: skip
"""Test WER of the ensembled baseline of SIGMORPHON 2021, task 1 (Ashby et al. 2021)."""

TO_GERMAN = """\
Published for English to German, test_2016: 41.0, lowercased and tokenised, by a small Transformer (Wu et al. 2021);
BLEU of words that another tokenizer cut differs by some tenths."""

VERSIONED = ", seqloom "
OLDER = """\
Where the line on the machine names no commit of seqloom, the figure is of a version before: it kept no moving average
of the weights, and recipes that were not measured again still keep none; recurrent models read embeddings as their
tables have them, those of the source beginning with a variance of 1/size on 2026-11-16 and of 1 on 2026-11-17; and on
2026-11-16 logits that are not tied began with smaller weights.
"""

SEARCH = """\
CTranslate2 had two threads for one batch here. With a worker of one thread for each half of it, it is two to three
times as fast, as `decode.py` has it now: see Engines, where it answers for a trained Transformer.
"""

AGAINST = """\
**Recurrent against Transformer**, words wrong: {found}.

The recurrent model wins, with the same words and in less than half the time: likely because it reads and writes in
order by itself, and letters and phones go side by side; a Transformer has to learn even that from 8,000 words."""

LITTLE = """\
**Little data**: `…/default` has no option set at all, and `-1000` and `-100` learn from as many pairs of the same
file. Of a thousand words a model learns to pronounce most others; of a hundred, more phones than not are right, but
nearly every word is wrong somewhere: good for seeing that the data is read as it was meant, not for use."""

FEW_SENTENCES = """\
**Little data**: `-1000` and `-100` learn from as many pairs, with no option set. Of a thousand sentences a model
learns the words that are said often and how a sentence goes; of a hundred, hardly more than how a sentence goes."""

HEAD = """\
# Results

Every figure on this page was measured, and the page is made from the files in `benchmarks/results` by
`benchmarks/report.py`. To repeat one, take the command beside it and a folder with the data; how each is measured is
said in `benchmarks/README.md` and at the head of the benchmark's file.
"""


def page(results: Path = RESULTS) -> str:
    """The whole page."""
    parts = [HEAD]
    if (results / "quality.json").exists():
        records = json.loads((results / "quality.json").read_text(encoding="utf-8"))
        parts += quality(records)
    parts += speed(results)
    return "\n".join(parts)


# -- quality


def quality(records: list[Found]) -> list[str]:
    """What models reach on public data."""
    parts = [
        "## Quality\n\n"
        "`.venv/bin/python benchmarks/quality.py DATA --cases CASE` trains a case by its recipe and measures it.\n"
        "Intervals are of 95 %, by bootstrap over the test set; seeds are those of training; minutes are those of\n"
        "the whole training command, for each run. The dev set alone decided when training ended and which weights\n"
        "were kept.\n"
    ]
    if any(VERSIONED not in r["machine"] for r in records):
        parts.append(OLDER)
    groups: tuple[tuple[str, str, Callable[[list[Found]], str]], ...] = (
        ("multi30k", "Multi30k, image descriptions", translation),
        ("g2p", "Pronunciation, SIGMORPHON 2021 task 1", pronunciation),
        ("cmudict", "Pronunciation, CMUdict without stress", pronunciation),
    )
    for prefix, title, show in groups:
        chosen = [r for r in records if r["case"].startswith(prefix)]
        if chosen:
            parts.append(f"### {title}\n\n{show(chosen)}")
    parts.append("### Commands and machines\n\n" + commands(records))
    return parts


def translation(records: list[Found]) -> str:
    """BLEU by test set, and by length."""
    label = first_label(records[0])
    tests = sorted({r["test"] for r in records})
    rows = []
    for case, seeds in unique((r["case"], tuple(r["seeds"])) for r in records):
        these = {r["test"]: r for r in records if (r["case"], tuple(r["seeds"])) == (case, seeds)}
        one = next(iter(these.values()))
        values = [with_interval(these[t], label) if t in these else "" for t in tests]
        rows.append([f"`{case}`", which(one), *values, minutes(one), f"{one['parameters'] / 1e6:.1f} M"])
    text = table(["case", "seed", *(f"{t}, {label}" for t in tests), "minutes", "parameters"], rows)
    signature = records[0]["metrics"][label]["signature"]
    beside = f"\n{TO_GERMAN}\n" if any(r["case"].startswith("multi30k-en-de") for r in records) else ""
    lengths = by_length([r for r in records if r["test"] == tests[0]])
    little = f"\n{FEW_SENTENCES}\n" if any(r["case"].endswith("-100") for r in records) else ""
    return f"{text}\n{signature}\n{beside}\n**By length of the source**, in tokens, {tests[0]}:\n\n{lengths}{little}"


def by_length(records: list[Found]) -> str:
    """The first metric in every bucket of source lengths; one table for each way to cut them."""
    parts = []
    bounds = unique(tuple((b["low"], b["high"]) for b in r["by_length"]) for r in records)
    for cut in bounds:
        labels = [f"{low}+" if high is None else f"{low}–{high}" for low, high in cut]
        rows = [
            [f"`{r['case']}`", which(r), *(f"{b['value']:.1f}" for b in r["by_length"])]
            for r in records
            if tuple((b["low"], b["high"]) for b in r["by_length"]) == cut
        ]
        parts.append(table(["case", "seed", *labels], rows))
    return "\n".join(parts)


def pronunciation(records: list[Found]) -> str:
    """Words wrong and edits per phone, beside the published baseline where there is one."""
    rows = []
    for r in records:
        wer, ser = (r["metrics"][label]["value"] for label in list(r["metrics"])[:2])
        published = BASELINE.get(r["case"].split("/")[1]) if "/" in r["case"] else None
        beside = "" if published is None else f"{published:.1f}"
        low, high = r["metrics"][first_label(r)]["interval"]
        rows.append(
            [f"`{r['case']}`", which(r), f"{wer:.1f} ({low:.1f} – {high:.1f})", f"{ser:.2f}", beside, minutes(r)]
        )
    text = table(["case", "seed", "words wrong, %", "edits per phone, %", "published, words wrong", "minutes"], rows)
    singles = {r["case"]: r["metrics"][first_label(r)]["value"] for r in records if r["seeds"] == [1]}
    medium = [f"g2p/{language}" for language in BASELINE if language != "ice"]
    if all(case in singles for case in medium):
        ours, published = mean(singles[case] for case in medium), mean(BASELINE[c.split("/")[1]] for c in medium)
        text += (
            f"\nMean of the ten medium languages, single runs: **{ours:.2f} %** of words wrong; the published "
            f"ensembled baseline has {published:.2f}.\n"
        )
    if "g2p" in records[0]["case"]:
        text += "\nPublished: the ensembled baseline of the shared task (Ashby et al. 2021).\n"
    both = [case for case in singles if f"{case}/transformer" in singles]
    if both and all(singles[case] < singles[f"{case}/transformer"] for case in both):
        found = ", ".join(f"`{c}` {singles[c]:.1f} against {singles[f'{c}/transformer']:.1f} %" for c in both)
        text += f"\n{AGAINST.format(found=found)}\n"
    if any(case.endswith("-100") for case in singles):
        text += f"\n{LITTLE}\n"
    return text


def commands(records: list[Found]) -> str:
    """What made every case, and where."""
    shown = unique((r["case"], r["command"], r["machine"]) for r in records)
    machines = unique(machine for *_, machine in shown)
    lines = [f"- `{case}`: `{command}` [{machines.index(machine) + 1}]" for case, command, machine in shown]
    return "\n".join([*lines, "", *(f"[{n}] {machine}\n" for n, machine in enumerate(machines, start=1))])


def first_label(record: Found) -> str:
    return str(next(iter(record["metrics"])))


def which(record: Found) -> str:
    seeds = record["seeds"]
    return f"{seeds[0]}" if len(seeds) == 1 else f"{', '.join(map(str, seeds))} together"


def minutes(record: Found) -> str:
    return ", ".join(f"{m:.1f}" for m in record["minutes"])


def with_interval(record: Found, label: str) -> str:
    low, high = record["metrics"][label]["interval"]
    return f"{record['metrics'][label]['value']:.2f} ({low:.1f} – {high:.1f})"


# -- speed


def speed(results: Path) -> list[str]:
    """What the benchmarks of speed left behind, as it is."""
    titles = {
        "train_step": ("The training step", ""),
        "train_corpus": ("Training on a corpus", " DATA"),
        "time_to_quality": ("Time to quality", " DATA"),
        "decode": ("Search", ""),
        "engines": ("Engines", " RUN --data DATA/multi30k/test_2016_flickr.de DATA/multi30k/test_2016_flickr.en"),
        "prepare": ("A corpus of 10 million pairs", " --multi30k DATA/multi30k --out benchmarks/results"),
    }
    parts = ["## Speed\n\nHow many rounds a figure is the median of is said above each table: `--rounds`.\n"]
    for name, (title, arguments) in titles.items():
        if (results / f"{name}.txt").exists():
            text = (results / f"{name}.txt").read_text(encoding="utf-8").rstrip()
            parts.append(f"### {title}\n\n`.venv/bin/python benchmarks/{name}.py{arguments}`\n\n```\n{text}\n```\n")
            if name == "decode" and VERSIONED not in text:
                parts.append(SEARCH)
    return parts


# -- writing


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; numbers are to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def unique(things: Iterable[Any]) -> list[Any]:
    """Each once, in the order of its first appearance."""
    return list(dict.fromkeys(things))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
