"""The page that a run writes about itself."""

import json
import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import nn

from seqloom import __version__
from seqloom.config import Config
from seqloom.data.fields import Fields, Text
from seqloom.data.prepare import Prepared
from seqloom.decode.rollout import rolls_out
from seqloom.registry import split
from seqloom.train.compile import left_out
from seqloom.train.folder import Lines, RunFolder


def readme(
    folder: RunFolder,
    config: Config,
    prepared: Prepared,
    network: nn.Module,
    final: Mapping[str, Mapping[str, Any]] | None,
) -> str:
    """What the run was trained on, what it is, how good it is, and how to use it."""
    name = folder.path.resolve().name
    parameters = sum(p.numel() for p in network.parameters())
    return f"""# {name}

A model trained by seqloom {__version__}:

    {folder.command}

## Data

{_data(prepared)}

## Model

{parameters:,} parameters. {_parts(config)}All of it is in `config.yaml`.

## On dev

{_final(final, "rollout" if rolls_out(network) else split("search", config.search)[0])}

{_course(folder, config)}

## To use it

    seqloom predict {name} {"--input input.jsonl" if config.data.fields else "< input"} > output
    seqloom evaluate {name} {_test(config)}

    import seqloom
    model = seqloom.load("{name}")
    model.predict({_asked(prepared.fields)})
"""


def _asked(fields: Fields) -> str:
    """What to predict from, in Python."""
    inputs = [name for name in fields if name != "target"]
    return '"…"' if inputs == ["source"] else json.dumps(dict.fromkeys(inputs, "…"), ensure_ascii=False)


def _test(config: Config) -> str:
    """What to evaluate the run on, as options of the command."""
    task = config.data.task
    if task is None:
        return "--data test.source test.target"
    return f"--task {shlex.quote(task if isinstance(task, str) else json.dumps(task, ensure_ascii=False))}"


def _data(prepared: Prepared) -> str:
    fields = prepared.fields
    rows = [f"| | pairs | {' | '.join(f'{name} tokens' for name in fields)} |", f"|---|---|{'---|' * len(fields)}"]
    for title, corpus in (("train", prepared.train), ("dev", prepared.dev)):
        if corpus is not None:
            steps = " | ".join(f"{int(corpus.lengths[name].sum()):,}" for name in fields)
            rows.append(f"| {title} | {len(corpus):,} | {steps} |")
    kinds = {name: _kind(name, fields) for name in fields}
    if fields.shared:
        kinds = {"one vocabulary for both": kinds.pop("source"), **kinds}
        del kinds["target"]
    vocabularies = "; ".join(f"{name}: {kind}" for name, kind in kinds.items()) + "."
    vocabularies = vocabularies[0].upper() + vocabularies[1:]
    parts = [part for part in ("train", "dev") if prepared.facts[part] is not None]
    read = [
        f"- {part}: {', '.join(file['path'] for file in prepared.facts[part]['files'])}"
        for part in parts
        if prepared.facts[part]["files"]
    ]
    skipped = [f"- {line}" for part in parts for line in left_out(part, Counter(prepared.facts[part]["skipped"]))]
    return "\n".join([*rows, "", vocabularies, "", *read, *skipped]).rstrip()


def _kind(name: str, fields: Fields) -> str:
    """What a field is."""
    field = fields[name]
    if isinstance(field, Text):
        return f"{field.size:,} symbols by `{field.cutter.name}`"
    return f"`{split('field', fields.specs[name])[0]}` of size {field.size:,}"


def _parts(config: Config) -> str:
    model: dict[str, Any] = config.model
    words = []
    for part in ("encoder", "decoder"):
        spec = model.get(part)
        if isinstance(spec, dict):
            cell = spec.get("cell", {})
            detail = [f"{spec['layers']} × {spec['size']}" if "layers" in spec else "", cell.get("name", "")]
            words.append(f"{part}: {spec['name']} ({', '.join(d for d in detail if d)})")
    return f"{'; '.join(words).capitalize()}. " if words else ""


def _final(final: Mapping[str, Mapping[str, Any]] | None, search: str) -> str:
    if final is None:
        return "The run was stopped before its end; the best weights so far are in `model.safetensors`."
    rows = [f"| metric | value (search: {search}) |", "|---|---|"]
    rows += [f"| {name} | {found['value']:.2f} |" for name, found in final.items()]
    return "\n".join([*rows, "", *(f"- `{found['signature']}`" for found in final.values())])


def _course(folder: RunFolder, config: Config) -> str:
    evaluations = [record for record in Lines(folder.metrics) if "dev" in record]
    if not evaluations:
        return "No evaluation was made yet."
    best = [record for record in evaluations if record["best"]][-1]
    return (
        f"{len(evaluations)} evaluations, the best after update {best['update']:,} (epoch {best['epoch']}) "
        f"of {config.train.updates or 0:,}."
    )
