"""Settings on top of settings: the one way in which presets, files, the command line and Python are merged."""

from collections.abc import Mapping
from typing import Any


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two nested mappings as one. A part named anew loses the options that were set for the old one."""
    merged = dict(below)
    for key, value in above.items():
        there = merged.get(key)
        if isinstance(value, Mapping):
            base = there if isinstance(there, Mapping) else {"name": there} if isinstance(there, str) else {}
            if "name" in value and value["name"] != base.get("name", value["name"]):
                base = {}
            merged[key] = merge(base, value)
        elif isinstance(there, Mapping) and isinstance(value, str) and there.get("name", value) == value:
            merged[key] = {**there, "name": value}  # the same part, by name alone: what was set for it stays
        else:
            merged[key] = value
    return merged


def by_path(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``{"a.b": 1, "a.c": 2}`` as nested mappings, the later settings on top."""
    merged: dict[str, Any] = {}
    for path, value in settings.items():
        for key in reversed(path.split(".")):
            value = {key: value}
        merged = merge(merged, value)
    return merged
