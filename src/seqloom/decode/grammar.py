"""Grammars over characters as grammars over tokens."""

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from seqloom.batch import EOS
from seqloom.errors import ConfigError


class Automaton(Protocol):
    """A deterministic finite automaton over characters."""

    @property
    def initial(self) -> Hashable:
        """The initial state: the state of the empty text."""

    def transition(self, state: Any, char: str, /) -> Hashable | None:
        """The state after one more character; None: the character is not allowed."""

    def is_final(self, state: Any, /) -> bool:
        """Whether a text may end in this state."""


class TokenGrammar:
    """Allows the tokens whose characters an automaton accepts: a ``Grammar`` for ``TokenConstraints``.

    The transitions of all tokens in all reachable states are computed once, so a call is a table lookup. That a token
    is allowed does not guarantee that the tokens of the vocabulary can complete the text.

    automaton: the grammar.
    tokens: the text that each token adds; "" for tokens that never occur in a hypothesis.
    """

    def __init__(self, automaton: Automaton, tokens: Sequence[str]) -> None:
        states, number = [automaton.initial], {automaton.initial: 0}
        table: list[list[int | None]] = []
        for state in states:  # grows during the loop
            row: list[int | None] = []
            for text in tokens:
                target = _run(automaton, state, text) if text else None
                if target is not None and target not in number:
                    number[target] = len(states)
                    states.append(target)
                row.append(None if target is None else number[target])
            table.append(row)
        # Tokens that are not allowed lead to a sink state without transitions: a forced prefix may reach it.
        sink = len(states)
        self.next_PV = torch.tensor(
            [*([sink if p is None else p for p in row] for row in table), [sink] * len(tokens)]
        )
        self.allowed_PV = self.next_PV != sink
        self.allowed_PV[:sink, EOS] = torch.tensor([automaton.is_final(state) for state in states])
        if not bool(self.allowed_PV[0].any()):
            raise ConfigError(
                "the grammar allows no token of this vocabulary at the start of the output: use a tokenizer and "
                "training data that cover the grammar"
            )

    def __call__(self, tokens_RT: Tensor) -> Tensor:
        """Whether each token may follow, R V."""
        state_R = torch.zeros(len(tokens_RT), dtype=torch.long, device=tokens_RT.device)
        next_PV = self.next_PV.to(tokens_RT.device)
        for token_R in tokens_RT.unbind(1):
            state_R = next_PV[state_R, token_R]
        return self.allowed_PV.to(tokens_RT.device)[state_R]


def _run(automaton: Automaton, state: Hashable, text: str) -> Hashable | None:
    """The state after a text; None: the text is not allowed."""
    current: Hashable | None = state
    for char in text:
        current = None if current is None else automaton.transition(current, char)
    return current
