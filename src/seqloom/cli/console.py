"""Where commands print what has a layout."""

from rich.console import Console as RichConsole


class Console(RichConsole):
    """Rich's, but that it leaves a broken pipe to whoever runs the command; Rich itself would exit with an error."""

    def on_broken_pipe(self) -> None:
        """Called where the reader of the output has gone."""
        raise BrokenPipeError
