"""Merging of nested settings, used for presets, files, the command line and Python."""

from collections.abc import Mapping
from typing import Any


def merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two nested mappings. Replacing a part by another one drops the options of the old part."""
    merged = dict(base)
    for key, value in override.items():
        current = merged.get(key)
        if isinstance(value, Mapping):
            part = current if isinstance(current, Mapping) else {"name": current} if isinstance(current, str) else {}
            if "name" in value and value["name"] != part.get("name", value["name"]):
                part = {}
            merged[key] = merge(part, value)
        elif isinstance(current, Mapping) and isinstance(value, str) and current.get("name", value) == value:
            merged[key] = {**current, "name": value}  # the same part, given by name only: keep its options
        else:
            merged[key] = value
    return merged


def by_path(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Expand dotted paths such as ``{"a.b": 1, "a.c": 2}`` into nested mappings; later settings take precedence."""
    merged: dict[str, Any] = {}
    for path, value in settings.items():
        for key in reversed(path.split(".")):
            value = {key: value}
        merged = merge(merged, value)
    return merged
