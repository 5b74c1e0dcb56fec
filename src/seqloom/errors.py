"""Exceptions for user errors: each message says what is wrong, where, and what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from seqloom.synonyms import AMBIGUOUS, best_match


class SeqloomError(Exception):
    """Base class of all errors that seqloom raises."""


class UnknownNameError(SeqloomError):
    """The name of a part, option or preset that does not exist."""


class ConfigError(SeqloomError):
    """An invalid option value, or an invalid combination of options."""


class ShapeError(SeqloomError):
    """Tensors or parts whose sizes don't match."""


class InputError(SeqloomError):
    """Invalid input: an empty source, a file that is not UTF-8, files with different numbers of lines."""


class SentenceError(InputError):
    """An error in one sentence of a batch.

    problem: what is wrong. sentence: index of the sentence, from 0; None means all of them.
    """

    def __init__(self, problem: str, sentence: int | None = None) -> None:
        super().__init__(problem if sentence is None else f"sentence {sentence}: {problem}")
        self.problem = problem
        self.sentence = sentence


class WriteError(SeqloomError):
    """A file that could not be written: the disk is full, or permission is denied."""


class TrainingError(SeqloomError):
    """Training that can't continue: the loss is NaN or diverges."""


def unknown(what: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a ``name`` that is not in ``known``, with the closest match as a suggestion."""
    names = sorted(known)
    meant = best_match(name, names)
    near = [meant] if meant else get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}" if names else "there are none"
    if name in AMBIGUOUS and best_match(name, names) is None:
        hint = AMBIGUOUS[name]
    return UnknownNameError(f"unknown {what} {name!r}; {hint}")


_REQUIREMENTS = (
    (r"^Value error, ", ""),
    (r"^Input should ", "it must "),
    (r"greater than or equal to", "at least"),
    (r"less than or equal to", "at most"),
    (r", (unable to|got) .*", ""),
    (r"a valid boolean", "true or false"),
    (r"a valid dictionary", "a mapping"),
    (r"a valid integer", "an integer"),
    (r"a valid ", "a "),
)


def requirement(messages: Iterable[str]) -> str:
    """Validation messages of pydantic as one requirement, such as ``it must be a string or a mapping``."""
    found = []
    for message in messages:
        for pattern, replacement in _REQUIREMENTS:
            message = re.sub(pattern, replacement, message)
        found.append(message)
    start = "it must be "
    if all(message.startswith(start) for message in found):
        return start + " or ".join(dict.fromkeys(message.removeprefix(start) for message in found))
    return "; or ".join(dict.fromkeys(found))
