"""A grammar of texts for the tokens of a tokenizer."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol, runtime_checkable

from seqloom.batch import UNKNOWN
from seqloom.data.tokenizers import Tokenizer
from seqloom.decode.grammar import Automaton, TokenGrammar

NO_CHARACTER = "�"


@runtime_checkable
class TextGrammar(Automaton, Protocol):
    """What texts there may be: an automaton that reads their characters. A task ships one as its ``grammar``."""

    def __hash__(self) -> int:
        """It is kept with what was made of it."""


@dataclass(frozen=True)
class AfterSpace:
    """A grammar for tokenizers that put a space in front of the first word, which is not part of the text."""

    grammar: TextGrammar
    start: ClassVar[object] = object()

    def follow(self, place: Hashable, character: str) -> Hashable | None:
        """Where one more character leads: the first, if it is a space, to where the text begins."""
        if place is not self.start:
            return self.grammar.follow(place, character)
        return self.grammar.start if character == " " else self.grammar.follow(self.grammar.start, character)

    def complete(self, place: Hashable) -> bool:
        """Whether a text that stands there may end."""
        return self.grammar.complete(self.grammar.start if place is self.start else place)


@lru_cache(maxsize=8)
def for_tokens(grammar: TextGrammar, tokenizer: Tokenizer) -> TokenGrammar:
    """The grammar for the tokens of a tokenizer; kept, since to make it all tokens are read at every place."""
    texts = additions(tokenizer)
    whole = all(tokenizer.decode([id_]) == text for id_, text in enumerate(texts) if text)
    return TokenGrammar(grammar if whole else AfterSpace(grammar), texts)


def additions(tokenizer: Tokenizer) -> list[str]:
    """What each token adds to a text that has begun; "" for special symbols and for single bytes of a character."""
    first = UNKNOWN + 1
    begun = tokenizer.decode([first])
    texts = [tokenizer.decode([first, id_]).removeprefix(begun) for id_ in range(first, len(tokenizer))]
    return [""] * first + ["" if NO_CHARACTER in text else text for text in texts]
