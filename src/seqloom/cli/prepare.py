"""``seqloom prepare``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import Assignments, Columns, DataFormat, DevFiles, Header, Imports, TrainFiles, data_given


def prepare(
    out: Annotated[Path, typer.Option(help="Output directory of the prepared corpus.")],
    train: TrainFiles = None,
    dev: DevFiles = None,
    form: DataFormat = None,
    columns: Columns = None,
    header: Header = False,
    assign: Assignments = None,
    imports: Imports = None,
) -> None:
    """Prepare a corpus once, to train on it without reading and tokenizing it again."""
    from seqloom.config import make_config, parse_settings
    from seqloom.errors import ConfigError
    from seqloom.merge import merge
    from seqloom.train.display import display_for
    from seqloom.train.prepare_data import prepare_corpus

    if not train:
        raise ConfigError("give the training data: --train train.{de,en}")
    changes = parse_settings(assign or [])
    if changes.keys() - {"data", "seed"}:
        raise ConfigError("prepare accepts only --set data.… and --set seed=…: give other settings to seqloom train")
    given: dict[str, Any] = {"data": data_given(train, dev, form, columns, header)}
    display = display_for()
    try:
        prepare_corpus(make_config(merge(given, changes)), out, display=display)
    finally:
        display.close()
    print(out)
