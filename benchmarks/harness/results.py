"""What a benchmark leaves behind: records as JSON, and the table as text with a line on the machine."""

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
    """A row of a table; ``columns`` has a heading for every field, and how its values are formatted ("": text)."""

    columns: ClassVar[Mapping[str, str]]


@dataclass(frozen=True)
class Record(Row):
    """Times of one case against one peer.

    ratio: how many times as long the peer takes, peer_ms / ours_ms.
    limit_share: how much of our time would be left at the limit, limit / ours_ms; None where there is no limit.
    ours_mb, peer_mb: peak memory above what the process held before the case was made; None where not measured.
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
    """Speeds of one case against one peer, and how large the two models are.

    ratio: how many times as fast we are, ours_speed / peer_speed.
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
    """Speeds of one search against one peer, in sentences per second.

    ratio: how many times as fast we are, ours_speed / peer_speed.
    limit_share: how much of our time would be left at the limit.
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
    """How long an answer of so many tokens takes, and a token of it."""

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
    """A record, its ratios computed and all of it rounded to what is meant."""
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
    """Records of one kind as aligned columns, numbers to the right."""
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
    """One line on what the numbers were measured on; note: what else is to be said of it."""
    models = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    at_once = ("1 thread" if threads == 1 else f"{threads} threads") + (f", {note}" if note else "")
    return (
        f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {at_once}, {memory:.0f} GB, "
        f"{platform.system()}, Python {platform.python_version()}, torch {version('torch')}, seqloom {commit()}, "
        f"{datetime.datetime.now(datetime.UTC).date()}"
    )


def commit() -> str:
    """Which seqloom is measured: the last commit of its code and recipes, with a + where files differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments, "HEAD", "--", "src", "recipes"], cwd=BENCHMARKS.parent, capture_output=True, text=True
        ).stdout.strip()

    named = git("log", "-1", "--format=%h")
    return f"{named}{'+' if git('diff', '--name-only') else ''}" if named else version("seqloom")


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def write(name: str, records: Sequence[Row], text: str, folder: Path = RESULTS) -> None:
    """``<name>.json`` with the records and ``<name>.txt`` with the text, each put in place whole."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(f"  {json.dumps(asdict(r))}" for r in records)
    for suffix, content in (("json", f"[\n{rows}\n]\n"), ("txt", text.rstrip() + "\n")):
        beside = folder / f".{name}.{suffix}"
        beside.write_text(content, encoding="utf-8")
        beside.replace(folder / f"{name}.{suffix}")
