"""``reorder``: sentences of a made-up language in another word order."""

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Annotated, ClassVar, Final

from pydantic import Field

from seqloom.registry import Count, Natural, Spec, register
from seqloom.tasks.permutation import Permutation

STEMS: Final = ["".join(letters) for letters in product("bdfgklmnprtv", "aeiou", "lnrst")]
Words = Annotated[int, Field(ge=1, le=len(STEMS))]


@register("task", "reorder")
class Reorder(Permutation):
    """Sentences of a made-up language, whose verbs move to the end and adjectives behind their nouns.

    ``granda hundo vidas kato`` is ``hundo granda kato vidas``. A word's ending tells its class: -a adjective, -o
    noun, -as verb; ``kaj`` joins clauses. Where a word goes depends on the classes of the words around it.

    seed: of everything random.
    train, dev, test: how many pairs there are.
    clauses: the most in a sentence.
    adjectives: the most in front of a noun.
    words: how many there are of each class.
    """

    fields: ClassVar[dict[str, Spec]] = {"source": "symbols", "target": "symbols"}
    separator = " "

    def __init__(
        self, *, seed: int = 1, train: Count = 10_000, dev: Count = 500, test: Count = 1_000,
        clauses: Count = 3, adjectives: Natural = 2, words: Words = 30,
    ) -> None:  # fmt: skip
        super().__init__(seed=seed, train=train, dev=dev, test=test)
        self.clauses, self.adjectives = clauses, adjectives
        self.stems = Random("stems").sample(STEMS, len(STEMS))[:words]

    def draw(self, random: Random) -> list[str]:
        def word(ending: str) -> str:
            return random.choice(self.stems) + ending

        def phrase() -> list[str]:
            return [*(word("a") for _ in range(random.randint(0, self.adjectives))), word("o")]

        clauses = [[*phrase(), word("as"), *phrase()] for _ in range(random.randint(1, self.clauses))]
        return [word for clause in clauses for word in ("kaj", *clause)][1:]

    def order(self, tokens: Sequence[str]) -> list[int]:
        def key(n: int) -> tuple[int, int, int, int]:
            clause = tokens[:n].count("kaj")
            rank = 2 if tokens[n] == "kaj" else int(tokens[n].endswith("as"))
            phrase = sum(word.endswith("o") for word in tokens[:n])
            return clause, rank, phrase, -n  # a noun ends its phrase, so backwards it comes first

        return sorted(range(len(tokens)), key=key)
