"""Grammars over characters as grammars over tokens."""

import itertools

import pytest
import torch

from seqloom import Batch
from seqloom.batch import EOS
from seqloom.decode import TokenConstraints, TokenGrammar
from seqloom.decode.beam import Beam
from seqloom.decode.diverse_beam import DiverseBeam
from seqloom.decode.greedy import Greedy
from seqloom.decode.sample import Sample
from seqloom.errors import ConfigError
from tests.decode.reference import TableModel, random_table

TOKENS = ["", "", "", "(", ")", "()", ")(", "x"]


class Brackets:
    """Balanced brackets with a depth of at most two."""

    initial = 0

    def transition(self, state: int, char: str) -> int | None:
        depth = state + {"(": 1, ")": -1}.get(char, 9)
        return depth if 0 <= depth <= 2 else None

    def is_final(self, state: int) -> bool:
        return state == 0


def balanced(text: str) -> bool:
    depth = list(itertools.accumulate(1 if c == "(" else -1 for c in text))
    return all(0 <= d <= 2 for d in depth) and (not depth or depth[-1] == 0)


def test_search_finds_exactly_the_texts_of_the_grammar():
    model, max_length = TableModel(random_table(1, symbols=8)), 4
    constraints = TokenConstraints(grammar=TokenGrammar(Brackets(), TOKENS))
    (found,) = Beam(beam_size=2000, n_best=2000, max_length=max_length)(
        model, Batch.from_lists(None, [[0]]), constraints=constraints
    )
    finished = {tuple(h.tokens) for h in found if h.finished}
    strings = [y for n in range(max_length + 1) for y in itertools.product(range(3, 7), repeat=n)]
    assert finished == {y for y in strings if balanced("".join(TOKENS[v] for v in y))}


@pytest.mark.parametrize(
    "search",
    [Beam(beam_size=4), DiverseBeam(beam_size=4, groups=2), Greedy(), Sample(samples=3)],
    ids=lambda search: type(search).__name__,
)
def test_grammar_is_called_only_with_partial_hypotheses(search):
    """It is never called with finished rows, whose tokens it does not allow."""
    calls = []

    def no_four(tokens_RT):
        calls.extend(tokens_RT.tolist())
        return (torch.arange(6) != 4).expand(len(tokens_RT), -1)

    model, batch = (
        TableModel(*[random_table(n, sharpness=2.0) for n in range(7)]),
        Batch.from_lists(None, [[n] for n in range(7)]),
    )
    search(model, batch, constraints=TokenConstraints(grammar=no_four))
    assert max(map(len, calls)) > 2
    assert not [tokens for tokens in calls if {4, EOS} & set(tokens)]


def test_no_token_is_allowed_after_a_forbidden_prefix():
    grammar = TokenGrammar(Brackets(), TOKENS)
    tokens_RT = torch.tensor([[3, 3], [4, 3], [7, 3], [3, 4]])
    allowed = [row.nonzero().squeeze(1).tolist() for row in grammar(tokens_RT)]
    assert allowed == [[4, 6], [], [], [EOS, 3, 5]]


def test_vocabulary_that_does_not_cover_the_grammar_raises_error():
    class Letters(Brackets):
        def is_final(self, state: int) -> bool:
            return False

    with pytest.raises(ConfigError, match="allows no token of this vocabulary"):
        TokenGrammar(Letters(), ["", "", "", "x", ")"])
