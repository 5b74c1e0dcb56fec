"""``seqloom config``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import Assignments, Imports, Preset

if TYPE_CHECKING:
    from seqloom.config import Section

WIDTH = 44
"""Where comments begin, if there is room."""
TOKENS_A_SENTENCE = 30
"""To guess how many updates an epoch will have, before there is any data."""


def config(
    preset: Preset = None,
    pairs: Annotated[int, typer.Option(min=1, help="For so many training pairs.")] = 30_000,
    assign: Assignments = None,
    imports: Imports = None,
) -> None:
    """Print a complete configuration with every option explained, to be saved, changed and trained."""
    from seqloom.config import make_config, settings

    model = {} if preset is None else {"model": {"preset": preset}}
    print("\n".join(commented(make_config(model, settings(assign or [])), pairs)))


def commented(config: Any, pairs: int) -> list[str]:
    """The lines of a configuration with what suits so many pairs, and what each option means."""
    from seqloom.config import DataConfig, TrainConfig
    from seqloom.models.describe import complete_part
    from seqloom.train.defaults import choose, choose_updates

    updates = config.train.updates
    choose(config, pairs)
    sentences = config.train.batch_sentences or max(1, (config.train.batch_tokens or 0) // TOKENS_A_SENTENCE)
    choose_updates(config, max(1, pairs // sentences))
    config.train.updates = updates
    data, train = config.data.model_dump(mode="json"), config.train.model_dump(mode="json")
    for section, keys in ((data, ("source", "target")), (train, ("optimiser", "schedule", "sampling", "metric"))):
        for key in keys:
            kind = "tokenizer" if section is data else key
            if section[key] is not None:
                section[key] = complete_part(kind, section[key])
    return [
        f"# What suits {pairs:,} training pairs. A null is chosen when training begins.",
        *line("seed", config.seed, "of everything random", 0),
        "",
        "model:",
        *part_lines(config.model, part_class("model", config.model["model"]), 1),
        "",
        "data:",
        *section_lines(data, DataConfig, 1),
        "",
        "train:",
        *section_lines(train, TrainConfig, 1),
        "",
        "search:  # how answers are found after training; dev is judged greedily",
        *part_lines(complete_part("search", config.search), part_class("search", config.search), 1),
    ]


def part_class(kind: str, spec: Any) -> type:
    """The class that a specification names."""
    from seqloom.registry import find, split

    return find(kind, split(kind, spec)[0])


def part_lines(spec: dict[str, Any], part: type, depth: int) -> list[str]:
    """A part's options, each with what its docstring says, and the parts in them with theirs."""
    from seqloom.nn.attention import Attention
    from seqloom.registry import KINDS, explained, meaning, part_options, parts

    said, kinds = explained(part), part_options(part)
    lines: list[str] = []
    for key, value in spec.items():
        if key in kinds and isinstance(value, dict):
            inner = part_class(kinds[key], value)
            there = ", ".join(parts(kinds[key]))
            lines += ["  " * depth + f"{key}:  # {KINDS[kinds[key]].meaning}; there are: {there}"]
            lines += part_lines(value, inner, depth + 1)
        elif key == "attention" and isinstance(value, dict):
            lines += ["  " * depth + "attention:", *part_lines(value, Attention, depth + 1)]
        else:
            lines += line(key, value, meaning(part) if key == "name" else said.get(key, ""), depth)
    return lines


def section_lines(values: dict[str, Any], section: "type[Section]", depth: int) -> list[str]:
    """A section's settings, each with its description."""
    lines: list[str] = []
    for key, value in values.items():
        description = section.model_fields[key].description or ""
        if isinstance(value, dict) and "name" in value:
            kind = "tokenizer" if key in ("source", "target") else key
            lines += [
                "  " * depth + f"{key}:  # {description}",
                *part_lines(value, part_class(kind, value), depth + 1),
            ]
        else:
            lines += line(key, value, description, depth)
    return lines


def line(key: str, value: Any, comment: str, depth: int) -> list[str]:
    """``key: value  # comment``, long comments on lines of their own above."""
    from textwrap import wrap

    from seqloom.config import to_yaml

    if isinstance(value, list | dict):
        shown = to_yaml(value, on_one_line=True).strip()
    else:
        shown = "null" if value is None else to_yaml({"v": value}).removeprefix("v:").strip()
    written = "  " * depth + f"{key}: {shown}"
    if not comment:
        return [written]
    beside = f"{written:<{WIDTH}}# {comment}"
    if len(beside) <= 118:
        return [beside]
    return [*("  " * depth + f"# {piece}" for piece in wrap(comment, 110 - 2 * depth)), written]
