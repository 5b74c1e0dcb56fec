"""Grammars over text, for the tokens of a tokenizer."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol, runtime_checkable

from seqloom.batch import UNK
from seqloom.data.tokenizers import Tokenizer
from seqloom.decode.grammar import Automaton, TokenGrammar

REPLACEMENT_CHARACTER = "�"


@runtime_checkable
class TextGrammar(Automaton, Protocol):
    """A grammar of output texts: an automaton over characters. A task can provide one as its ``grammar``."""

    def __hash__(self) -> int:
        """A hash: the token grammars made from it are cached."""


@dataclass(frozen=True)
class LeadingSpaceGrammar:
    """A grammar for tokenizers that add a space before the first word, which is not part of the text."""

    grammar: TextGrammar
    initial: ClassVar[object] = object()

    def transition(self, state: Hashable, char: str) -> Hashable | None:
        """The state after one more character; a leading space leads to the initial state of the grammar."""
        if state is not self.initial:
            return self.grammar.transition(state, char)
        return self.grammar.initial if char == " " else self.grammar.transition(self.grammar.initial, char)

    def is_final(self, state: Hashable) -> bool:
        """Whether a text may end in this state."""
        return self.grammar.is_final(self.grammar.initial if state is self.initial else state)


@lru_cache(maxsize=8)
def token_grammar(grammar: TextGrammar, tokenizer: Tokenizer) -> TokenGrammar:
    """The grammar for the tokens of a tokenizer; cached, since it runs all tokens from all states."""
    texts = token_texts(tokenizer)
    no_leading_space = all(tokenizer.decode([id_]) == text for id_, text in enumerate(texts) if text)
    return TokenGrammar(grammar if no_leading_space else LeadingSpaceGrammar(grammar), texts)


def token_texts(tokenizer: Tokenizer) -> list[str]:
    """The text that each token adds after other tokens; "" for special tokens and single bytes of a character."""
    first = UNK + 1
    context = tokenizer.decode([first])
    texts = [tokenizer.decode([first, id_]).removeprefix(context) for id_ in range(first, len(tokenizer))]
    return [""] * first + ["" if REPLACEMENT_CHARACTER in text else text for text in texts]
