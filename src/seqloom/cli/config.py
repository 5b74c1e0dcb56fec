"""``seqloom config``."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import Assignments, Imports, Preset

if TYPE_CHECKING:
    from seqloom.config import Section

COMMENT_COLUMN = 44
"""Column of the comments, unless the setting is longer."""
WIDTH = 118
"""Maximum length of a line."""
DATA_PARTS = {"source_tokenizer": "tokenizer", "target_tokenizer": "tokenizer"}
TRAIN_PARTS = {
    "optimizer": "optimizer",
    "schedule": "schedule",
    "scheduled_sampling": "scheduled_sampling",
    "validation_metric": "metric",
}
"""Settings that are parts, with their kinds."""
TOKENS_PER_SENTENCE = 30
"""Assumed sentence length in tokens, to estimate the number of updates per epoch without data."""


def config(
    preset: Preset = None,
    pairs: Annotated[
        int, typer.Option(min=1, help="Number of training pairs that the defaults are chosen for.")
    ] = 30_000,
    assign: Assignments = None,
    imports: Imports = None,
) -> None:
    """Print a complete configuration with comments, to save, edit and train."""
    from seqloom.config import make_config, parse_settings

    model = {} if preset is None else {"model": {"preset": preset}}
    print("\n".join(commented(make_config(model, parse_settings(assign or [])), pairs)))


def commented(config: Any, pairs: int) -> list[str]:
    """The lines of a configuration with the defaults for a number of training pairs; comments explain the options."""
    from seqloom.config import DataConfig, TrainConfig
    from seqloom.models.describe import complete_part
    from seqloom.train.defaults import choose_for_size, choose_updates

    updates = config.train.updates
    choose_for_size(config, pairs)
    sentences = config.train.batch_sentences or max(1, (config.train.batch_tokens or 0) // TOKENS_PER_SENTENCE)
    choose_updates(config, max(1, pairs // sentences))
    config.train.updates = updates
    data, train = config.data.model_dump(mode="json"), config.train.model_dump(mode="json")
    for section, kinds in ((data, DATA_PARTS), (train, TRAIN_PARTS)):
        for key, kind in kinds.items():
            if section[key] is not None:
                section[key] = complete_part(kind, section[key])
    return [
        f"# Defaults for {pairs:,} training pairs. Options that are null are chosen when training starts.",
        *line("seed", config.seed, "random seed", 0),
        "",
        "model:",
        *part_lines(config.model, part_class("model", config.model["type"]), 1),
        "",
        "data:",
        *section_lines(data, DataConfig, 1),
        "",
        "train:",
        *section_lines(train, TrainConfig, 1),
        "",
        *commented_line("search:", "decoding strategy after training; validation uses greedy search", 0),
        *part_lines(complete_part("search", config.search), part_class("search", config.search), 1),
    ]


def part_class(kind: str, spec: Any) -> type:
    """The class of the part in a specification."""
    from seqloom.registry import get_class, parse_spec

    return get_class(kind, parse_spec(kind, spec)[0])


def part_lines(spec: dict[str, Any], part: type, depth: int) -> list[str]:
    """A part's options with their descriptions, including those of nested parts."""
    from seqloom.nn.attention import Attention
    from seqloom.registry import KINDS, option_docs, part_options, parts, summary

    descriptions, kinds = option_docs(part), part_options(part)
    lines: list[str] = []
    for key, value in spec.items():
        if key in kinds and isinstance(value, dict):
            inner = part_class(kinds[key], value)
            names = ", ".join(parts(kinds[key]))
            lines += commented_line(f"{key}:", f"{KINDS[kinds[key]].summary}; choices: {names}", depth)
            lines += part_lines(value, inner, depth + 1)
        elif key == "attention" and isinstance(value, dict):
            lines += ["  " * depth + "attention:", *part_lines(value, Attention, depth + 1)]
        else:
            lines += line(key, value, summary(part) if key == "name" else descriptions.get(key, ""), depth)
    return lines


def section_lines(values: dict[str, Any], section: "type[Section]", depth: int) -> list[str]:
    """A section's settings with their descriptions."""
    lines: list[str] = []
    for key, value in values.items():
        description = section.model_fields[key].description or ""
        if isinstance(value, dict) and "name" in value:
            kind = {**DATA_PARTS, **TRAIN_PARTS}.get(key, key)
            lines += commented_line(f"{key}:", description, depth)
            lines += part_lines(value, part_class(kind, value), depth + 1)
        else:
            lines += line(key, value, description, depth)
    return lines


def line(key: str, value: Any, comment: str, depth: int) -> list[str]:
    """``key: value  # comment``."""
    from seqloom.config import to_yaml

    if isinstance(value, list | dict):
        shown = to_yaml(value, on_one_line=True).strip()
    else:
        shown = "null" if value is None else to_yaml({"v": value}).removeprefix("v:").strip()
    return commented_line(f"{key}: {shown}", comment, depth)


def commented_line(setting: str, comment: str, depth: int) -> list[str]:
    """A setting with its comment; a comment that is too long goes on separate lines before the setting."""
    from textwrap import wrap

    setting = "  " * depth + setting
    comment = comment.replace("``", "`")
    if not re.search(r"\. [A-Z]", comment):  # a single sentence or fragment
        comment = comment.removesuffix(".")
    if not comment:
        return [setting]
    with_comment = f"{setting:<{COMMENT_COLUMN}}# {comment}"
    if len(with_comment) <= WIDTH:
        return [with_comment]
    return [*("  " * depth + f"# {text}" for text in wrap(comment, WIDTH - 8 - 2 * depth)), setting]
