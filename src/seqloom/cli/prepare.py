"""``seqloom prepare``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import Assignments, Columns, DataFormat, DevFiles, Header, Imports, TrainFiles, data_given


def prepare(
    out: Annotated[Path, typer.Option(help="The folder for the compiled corpus.")],
    train: TrainFiles = None,
    dev: DevFiles = None,
    form: DataFormat = None,
    columns: Columns = None,
    header: Header = False,
    assign: Assignments = None,
    imports: Imports = None,
) -> None:
    """Compile a corpus once, to be trained on without loading it."""
    from seqloom.config import make_config, settings
    from seqloom.errors import OptionError
    from seqloom.merge import merge
    from seqloom.train.compile import compile_corpus
    from seqloom.train.display import display_for

    if not train:
        raise OptionError("say what to compile: --train train.{de,en}")
    changes = settings(assign or [])
    if changes.keys() - {"data", "seed"}:
        raise OptionError("prepare takes --set data.… and --set seed=…; models and training are set when training")
    given: dict[str, Any] = {"data": data_given(train, dev, form, columns, header)}
    display = display_for()
    try:
        compile_corpus(make_config(merge(given, changes)), out, display=display)
    finally:
        display.close()
    print(out)
