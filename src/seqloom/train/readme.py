"""The README of a run folder."""

import json
import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import nn

from seqloom import __version__
from seqloom.config import Config
from seqloom.data.fields import Fields, Text
from seqloom.data.prepare import PreparedCorpus
from seqloom.decode.rollout import rolls_out
from seqloom.registry import parse_spec
from seqloom.train.folder import JsonlLog, RunFolder
from seqloom.train.prepare_data import skipped_pairs


def readme(
    folder: RunFolder,
    config: Config,
    prepared: PreparedCorpus,
    network: nn.Module,
    final: Mapping[str, Mapping[str, Any]] | None,
) -> str:
    """Describe the data, the model, the results and the usage, as Markdown."""
    name = folder.path.resolve().name
    parameters = sum(p.numel() for p in network.parameters())
    return f"""# {name}

A model trained with seqloom {__version__}:

    {folder.command}

## Data

{_data(prepared)}

## Model

{parameters:,} parameters. {_parts(config)}The complete configuration is in `config.yaml`.

## Results on the validation set

{_results(final, "rollout" if rolls_out(network) else parse_spec("search", config.search)[0])}

{_validations(folder, config)}

## Usage

On the command line:

    seqloom predict {name} {"--input input.jsonl" if config.data.fields else "< input"} > output
    seqloom evaluate {name} {_test(config)}

In Python:

    import seqloom
    model = seqloom.load("{name}")
    model.predict({_sample_source(prepared.fields)})
"""


def _sample_source(fields: Fields) -> str:
    """An example input in Python."""
    inputs = [name for name in fields if name != "target"]
    return '"…"' if inputs == ["source"] else json.dumps(dict.fromkeys(inputs, "…"), ensure_ascii=False)


def _test(config: Config) -> str:
    """Options of ``seqloom evaluate`` for the test data."""
    task = config.data.task
    if task is None:
        return "--data test.source test.target"
    return f"--task {shlex.quote(task if isinstance(task, str) else json.dumps(task, ensure_ascii=False))}"


def _data(prepared: PreparedCorpus) -> str:
    fields = prepared.fields
    rows = [f"| | pairs | {' | '.join(f'{name} tokens' for name in fields)} |", f"|---|---|{'---|' * len(fields)}"]
    for title, corpus in (("training", prepared.train), ("validation", prepared.dev)):
        if corpus is not None:
            tokens = " | ".join(f"{int(corpus.lengths[name].sum()):,}" for name in fields)
            rows.append(f"| {title} | {len(corpus):,} | {tokens} |")
    kinds = {name: _kind(name, fields) for name in fields}
    if fields.shared:
        kinds = {"joint vocabulary": kinds.pop("source"), **kinds}
        del kinds["target"]
    vocabularies = "; ".join(f"{name}: {kind}" for name, kind in kinds.items()) + "."
    vocabularies = vocabularies[0].upper() + vocabularies[1:]
    parts = [part for part in ("train", "dev") if prepared.metadata[part] is not None]
    files = [
        f"- {part}: {', '.join(file['path'] for file in prepared.metadata[part]['files'])}"
        for part in parts
        if prepared.metadata[part]["files"]
    ]
    skipped = [
        f"- {line}" for part in parts for line in skipped_pairs(part, Counter(prepared.metadata[part]["skipped"]))
    ]
    return "\n".join([*rows, "", vocabularies, "", *files, *skipped]).rstrip()


def _kind(name: str, fields: Fields) -> str:
    """The vocabulary or size of a field."""
    field = fields[name]
    if isinstance(field, Text):
        return f"{field.size:,} tokens (tokenizer `{field.trainer.name}`)"
    return f"`{parse_spec('field', fields.specs[name])[0]}` of size {field.size:,}"


def _parts(config: Config) -> str:
    model: dict[str, Any] = config.model
    summaries = []
    for part in ("encoder", "decoder"):
        spec = model.get(part)
        if isinstance(spec, dict):
            cell = spec.get("cell", {})
            detail = [f"{spec['layers']} × {spec['hidden_size']}" if "layers" in spec else "", cell.get("name", "")]
            summaries.append(f"{part}: {spec['name']} ({', '.join(d for d in detail if d)})")
    return f"{'; '.join(summaries).capitalize()}. " if summaries else ""


def _results(final: Mapping[str, Mapping[str, Any]] | None, search: str) -> str:
    if final is None:
        return "Training was interrupted; the best weights so far are in `model.safetensors`."
    rows = [f"| metric | value (search: {search}) |", "|---|---|"]
    rows += [f"| {name} | {result['value']:.2f} |" for name, result in final.items()]
    return "\n".join([*rows, "", *(f"- `{result['signature']}`" for result in final.values())])


def _validations(folder: RunFolder, config: Config) -> str:
    validations = [record for record in JsonlLog(folder.metrics) if "dev" in record]
    if not validations:
        return "No validation has been run yet."
    best = [record for record in validations if record.get("is_best", record.get("best"))][-1]  # `best` in format 1
    return (
        f"{len(validations)} validations; the best one was after update {best['update']:,} (epoch {best['epoch']}) "
        f"of {config.train.updates or 0:,}."
    )
