"""Result files of a benchmark: records as JSON, and a table as text, with a line about the machine."""

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from harness.environment import BENCHMARKS

RESULTS = BENCHMARKS / "results"


@dataclass(frozen=True)
class Row:
    """A row of a table; ``columns`` maps the heading of every field to its format ("" for text)."""

    columns: ClassVar[Mapping[str, str]]


@dataclass(frozen=True)
class Record(Row):
    """Times of one case, compared with one peer.

    ratio: peer_ms / ours_ms; above 1, seqloom is faster.
    limit_share: limit / ours_ms; None without a limit.
    ours_mb, peer_mb: peak memory minus the memory before the case was built; None if not measured.
    """

    case: str
    peer: str
    ours_ms: float
    peer_ms: float
    ratio: float
    limit_share: float | None
    ours_mb: float | None
    peer_mb: float | None

    columns: ClassVar[Mapping[str, str]] = {
        "case": "", "peer": "", "ours ms": ".1f", "peer ms": ".1f", "ratio": ".2f", "limit share": ".0%",
        "ours MB": ".0f", "peer MB": ".0f",
    }  # fmt: skip


@dataclass(frozen=True)
class Speed(Row):
    """Speeds of one case, compared with one peer, and the sizes of both models.

    ratio: ours_speed / peer_speed; above 1, seqloom is faster.
    """

    case: str
    peer: str
    unit: str
    ours_speed: float
    peer_speed: float
    ratio: float
    ours_parameters: int
    peer_parameters: int

    columns: ClassVar[Mapping[str, str]] = {
        "case": "", "peer": "", "unit": "", "ours": ",.2f", "peer’s": ",.2f", "ratio": ".2f",
        "our parameters": ",", "peer’s parameters": ",",
    }  # fmt: skip


@dataclass(frozen=True)
class Decoding(Row):
    """Speeds of one search, compared with one peer, in sentences per second.

    ratio: ours_speed / peer_speed; above 1, seqloom is faster.
    limit_share: time at the limit divided by our time.
    """

    case: str
    peer: str
    ours_speed: float
    peer_speed: float
    ratio: float
    limit_share: float

    columns: ClassVar[Mapping[str, str]] = {
        "case": "", "peer": "", "ours": ",.1f", "peer’s": ",.1f", "ratio": ".2f", "limit share": ".0%",
    }  # fmt: skip


@dataclass(frozen=True)
class Length(Row):
    """Time of an output of ``tokens`` tokens, and the time per token."""

    case: str
    tokens: int
    ms: float
    token_ms: float

    columns: ClassVar[Mapping[str, str]] = {"case": "", "tokens": ",", "ms": ",.1f", "ms per token": ".3f"}


def compare(
    case: str,
    peer: str,
    *,
    ours_ms: float,
    peer_ms: float,
    limit_ms: float | None = None,
    ours_mb: float | None = None,
    peer_mb: float | None = None,
) -> Record:
    """Build a record: compute its ratios and round all figures."""
    return Record(
        case,
        peer,
        round(ours_ms, 2),
        round(peer_ms, 2),
        round(peer_ms / ours_ms, 3),
        None if limit_ms is None else round(limit_ms / ours_ms, 3),
        None if ours_mb is None else round(ours_mb, 1),
        None if peer_mb is None else round(peer_mb, 1),
    )


def table(records: Sequence[Row]) -> str:
    """Format records of one kind as a table with aligned columns."""
    columns = records[0].columns
    cells = [list(columns)]
    for record in records:
        values = zip(asdict(record).values(), columns.values(), strict=True)
        cells.append(["–" if value is None else format(value, how) for value, how in values])
    sides = ["rjust" if how else "ljust" for how in columns.values()]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(getattr(cell, side)(width) for cell, side, width in zip(row, sides, widths, strict=True))
        for row in cells
    ]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:]])


def machine(threads: int, note: str = "") -> str:
    """Describe the machine, the versions and the commit in one line; ``note`` is added to the threads."""
    models = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    used = ("1 thread" if threads == 1 else f"{threads} threads") + (f", {note}" if note else "")
    return (
        f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {used}, {memory:.0f} GB, "
        f"{platform.system()}, Python {platform.python_version()}, torch {version('torch')}, seqloom {commit()}, "
        f"{datetime.datetime.now(datetime.UTC).date()}"
    )


def commit() -> str:
    """Return the last commit of code and recipes, with a + if there are uncommitted changes."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments, "HEAD", "--", "src", "recipes"], cwd=BENCHMARKS.parent, capture_output=True, text=True
        ).stdout.strip()

    named = git("log", "-1", "--format=%h")
    return f"{named}{'+' if git('diff', '--name-only') else ''}" if named else version("seqloom")


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def write(name: str, records: Sequence[Row], text: str, folder: Path = RESULTS) -> None:
    """Write the records to ``<name>.json`` and the text to ``<name>.txt``, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(f"  {json.dumps(asdict(r))}" for r in records)
    for suffix, content in (("json", f"[\n{rows}\n]\n"), ("txt", text.rstrip() + "\n")):
        partial = folder / f".{name}.{suffix}"
        partial.write_text(content, encoding="utf-8")
        partial.replace(folder / f"{name}.{suffix}")
