"""A grammar over characters as one over tokens."""

import itertools

import pytest
import torch

from seqloom import Batch
from seqloom.batch import END
from seqloom.decode import Masks, TokenGrammar
from seqloom.decode.beam import Beam
from seqloom.decode.diverse import Diverse
from seqloom.decode.greedy import Greedy
from seqloom.decode.sample import Sample
from seqloom.errors import OptionError
from tests.decode.plain import TableModel, drawn

TOKENS = ["", "", "", "(", ")", "()", ")(", "x"]


class Brackets:
    """Brackets that close what they open, two deep at most."""

    start = 0

    def follow(self, open_now: int, character: str) -> int | None:
        there = open_now + {"(": 1, ")": -1}.get(character, 9)
        return there if 0 <= there <= 2 else None

    def complete(self, open_now: int) -> bool:
        return open_now == 0


def balanced(text: str) -> bool:
    depth = list(itertools.accumulate(1 if c == "(" else -1 for c in text))
    return all(0 <= d <= 2 for d in depth) and (not depth or depth[-1] == 0)


def test_a_search_writes_what_the_grammar_allows_and_all_of_it():
    model, most = TableModel(drawn(1, symbols=8)), 4
    masks = Masks(grammar=TokenGrammar(Brackets(), TOKENS))
    (found,) = Beam(width=2000, n_best=2000, max_length=most)(model, Batch.of(None, [[0]]), masks=masks)
    written = {tuple(h.tokens) for h in found if h.finished}
    strings = [y for n in range(most + 1) for y in itertools.product(range(3, 7), repeat=n)]
    assert written == {y for y in strings if balanced("".join(TOKENS[v] for v in y))}


@pytest.mark.parametrize(
    "search",
    [Beam(width=4), Diverse(width=4, groups=2), Greedy(), Sample(samples=3)],
    ids=lambda search: type(search).__name__,
)
def test_a_grammar_is_asked_about_beginnings_of_answers_alone(search):
    """Of rows that have ended it was asked too: beginnings with END in them, or with what it does not allow."""
    asked = []

    def no_four(tokens_RT):
        asked.extend(tokens_RT.tolist())
        return (torch.arange(6) != 4).expand(len(tokens_RT), -1)

    model, batch = TableModel(*[drawn(n, sharpness=2.0) for n in range(7)]), Batch.of(None, [[n] for n in range(7)])
    search(model, batch, masks=Masks(grammar=no_four))
    assert max(map(len, asked)) > 2
    assert not [tokens for tokens in asked if {4, END} & set(tokens)]


def test_nothing_follows_what_it_does_not_allow():
    grammar = TokenGrammar(Brackets(), TOKENS)
    tokens_RT = torch.tensor([[3, 3], [4, 3], [7, 3], [3, 4]])
    allowed = [row.nonzero().squeeze(1).tolist() for row in grammar(tokens_RT)]
    assert allowed == [[4, 6], [], [], [END, 3, 5]]


def test_a_vocabulary_that_can_not_write_it():
    class Letters(Brackets):
        def complete(self, place: int) -> bool:
            return False

    with pytest.raises(OptionError, match="lets no answer begin"):
        TokenGrammar(Letters(), ["", "", "", "x", ")"])
