"""What a person did wrong, said so that it can be put right: what, where, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class SeqloomError(Exception):
    """The root of every error that seqloom raises on purpose."""


class UnknownNameError(SeqloomError):
    """A name (of a part, an option, a preset) that does not exist."""


class OptionError(SeqloomError):
    """An option whose value, or whose combination with others, makes no sense."""


class SizeError(SeqloomError):
    """Tensors or parts whose sizes do not fit together."""


class InputError(SeqloomError):
    """Input that can't be used: an empty source, a file that is not UTF-8, lines that do not pair up."""


class SentenceError(InputError):
    """What is wrong with one of several sentences.

    problem: what it is. sentence: which of them has it, counted from 0; None: all.
    """

    def __init__(self, problem: str, sentence: int | None = None) -> None:
        super().__init__(problem if sentence is None else f"sentence {sentence}: {problem}")
        self.problem = problem
        self.sentence = sentence


class WriteError(SeqloomError):
    """A file that could not be written: a full disk, a folder that may not be written to."""


class TrainingError(SeqloomError):
    """Training that can't go on: a loss that is not a number, weights that diverge."""


def unknown(what: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a ``name`` that is not among the ``known``, with the nearest right one."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}" if names else "there are none"
    return UnknownNameError(f"unknown {what} {name!r}; {hint}")
