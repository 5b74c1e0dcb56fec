"""Presets: published architectures as YAML. A preset does not set sizes, dropout or training options."""

from functools import cache
from importlib.resources import files
from typing import Any

from ruamel.yaml import YAML

from seqloom.errors import unknown


def preset_names() -> list[str]:
    """The names of all presets, sorted."""
    return sorted(f.name.removesuffix(".yaml") for f in files(__name__).iterdir() if f.name.endswith(".yaml"))


def load_preset(name: str) -> dict[str, Any]:
    """The description of a preset's model."""
    if name not in preset_names():
        raise unknown("preset", name, preset_names())
    loaded: dict[str, Any] = YAML(typ="safe").load(_text(name))
    return loaded


def preset_paper(name: str) -> str:
    """The header comment of a preset's file: the paper that it follows, and where it deviates from it."""
    lines = []
    for line in _text(name).splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


@cache
def _text(name: str) -> str:
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
