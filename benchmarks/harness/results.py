"""What a benchmark leaves behind: records as JSON, and the table as text with a line on the machine."""

import datetime
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from harness.environment import BENCHMARKS

RESULTS = BENCHMARKS / "results"


@dataclass(frozen=True)
class Record:
    """One case against one peer: what every benchmark writes.

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


def table(records: Sequence[Record]) -> str:
    """Records as aligned columns."""
    heads = ("case", "peer", "ours ms", "peer ms", "ratio", "limit share", "ours MB", "peer MB")
    formats = ("", "", ".1f", ".1f", ".2f", ".0%", ".0f", ".0f")
    rows = [
        ["–" if value is None else format(value, how) for value, how in zip(asdict(r).values(), formats, strict=True)]
        for r in records
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) if n < 2 else cell.rjust(width) for n, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in (heads, *rows))
    ]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:]])


def machine(threads: int) -> str:
    """One line on what the numbers were measured on."""
    models = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {threads} threads, {memory:.0f} GB, "
        f"{platform.system()}, Python {platform.python_version()}, torch {version('torch')}, "
        f"{datetime.datetime.now(datetime.UTC).date()}"
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def write(name: str, records: Sequence[Record], text: str, folder: Path = RESULTS) -> None:
    """``<name>.json`` with the records and ``<name>.txt`` with the text, each put in place whole."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(f"  {json.dumps(asdict(r))}" for r in records)
    for suffix, content in (("json", f"[\n{rows}\n]\n"), ("txt", text.rstrip() + "\n")):
        beside = folder / f".{name}.{suffix}"
        beside.write_text(content, encoding="utf-8")
        beside.replace(folder / f"{name}.{suffix}")
