"""Error messages: every one that src can raise, from its syntax tree; ``python tests/test_messages.py`` lists them.

A message says what is wrong, where, and what to do, in words that people know.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from seqloom import errors

SOURCE = Path(__file__).parents[1] / "src" / "seqloom"
ERRORS = {name for name in vars(errors) if name.endswith("Error")}
RAISING = ERRORS | {"_error"}
HOUSE_WORDS = re.compile(
    r"\b(does not do|makes? no|knows? no|has no use|anew|of before|what is not|is said|are said|"
    r"leave (it|this|them|one|out)|left out|answers?|judged?|go on|goes on|wants?|hears?|likeliest)\b"
)
BRITISH = re.compile(r"(normalis|optimis|tokenis|initialis|quantis|behaviour|colour|centre\b)")


class Message(NamedTuple):
    """A message with ``…`` for what is filled in, and the line that raises it."""

    place: str
    text: str


def messages() -> Iterator[Message]:
    """All messages of exceptions of seqloom that are made anywhere in src."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and called(node.func) in RAISING:
                text = shown(node.args[0])
                if text.strip("…"):
                    yield Message(f"{path.relative_to(SOURCE)}:{node.lineno}", text)


def called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def shown(text: ast.expr) -> str:
    if isinstance(text, ast.Constant):
        return str(text.value)
    if isinstance(text, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in text.values)
    return "…"


MESSAGES = list(messages())


def test_messages_are_found():
    assert len(MESSAGES) > 200


@pytest.mark.parametrize("words", [HOUSE_WORDS, BRITISH], ids=["house words", "British spelling"])
def test_messages_use_the_words_of_the_field(words):
    assert [message for message in MESSAGES if words.search(message.text)] == []


def test_messages_have_no_full_stop():
    """They are printed after a prefix, and may be continued."""
    assert [message for message in MESSAGES if message.text.endswith(".") and ". " not in message.text] == []


if __name__ == "__main__":
    for message in MESSAGES:
        print(f"{message.place}: {message.text}")
