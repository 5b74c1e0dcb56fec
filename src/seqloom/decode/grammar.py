"""A grammar over characters as a grammar over tokens."""

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from seqloom.batch import END
from seqloom.errors import OptionError


class Automaton(Protocol):
    """A grammar over characters: where a text stands, and where it can go from there."""

    @property
    def start(self) -> Hashable:
        """Where the empty text stands."""

    def follow(self, place: Any, character: str, /) -> Hashable | None:
        """Where a text stands after one more character; None: it may not follow."""

    def complete(self, place: Any, /) -> bool:
        """Whether a text that stands there may end."""


class TokenGrammar:
    """The tokens that may follow, by an automaton that reads their characters: a ``Grammar`` for ``Masks``.

    It is made once for all tokens and all places that can be reached: asking it is a look into a table. That a token
    leads somewhere does not promise that the text can be completed from there by tokens.

    automaton: the grammar.
    tokens: what each token adds to a text; "" for those that no answer has.
    """

    def __init__(self, automaton: Automaton, tokens: Sequence[str]) -> None:
        places, number = [automaton.start], {automaton.start: 0}
        table: list[list[int | None]] = []
        for place in places:  # which grow on the way
            row: list[int | None] = []
            for text in tokens:
                there = _read(automaton, place, text) if text else None
                if there is not None and there not in number:
                    number[there] = len(places)
                    places.append(there)
                row.append(None if there is None else number[there])
            table.append(row)
        # What may not follow leads to one more place, from which nothing follows: a forced prefix may go there.
        lost = len(places)
        self.next_PV = torch.tensor(
            [*([lost if p is None else p for p in row] for row in table), [lost] * len(tokens)]
        )
        self.may_follow_PV = self.next_PV != lost
        self.may_follow_PV[:lost, END] = torch.tensor([automaton.complete(place) for place in places])
        if not bool(self.may_follow_PV[0].any()):
            raise OptionError("the grammar lets no answer begin, in the tokens of this vocabulary")

    def __call__(self, tokens_RT: Tensor) -> Tensor:
        """Whether each token may follow, R V."""
        place_R = torch.zeros(len(tokens_RT), dtype=torch.long, device=tokens_RT.device)
        next_PV = self.next_PV.to(tokens_RT.device)
        for token_R in tokens_RT.unbind(1):
            place_R = next_PV[place_R, token_R]
        return self.may_follow_PV.to(tokens_RT.device)[place_R]


def _read(automaton: Automaton, place: Hashable, text: str) -> Hashable | None:
    """Where a text leads from a place; None: nowhere."""
    there: Hashable | None = place
    for character in text:
        there = None if there is None else automaton.follow(there, character)
    return there
