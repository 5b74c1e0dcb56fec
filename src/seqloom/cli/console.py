"""The console for tables and other formatted output."""

from rich.console import Console as RichConsole


class Console(RichConsole):
    """Rich's console, except that a broken pipe raises ``BrokenPipeError``; Rich itself exits with an error."""

    def on_broken_pipe(self) -> None:
        """Called when the output pipe is closed."""
        raise BrokenPipeError
