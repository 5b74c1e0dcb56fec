"""``reorder``: reorder the words of sentences in an artificial language."""

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Annotated, ClassVar, Final

from pydantic import Field, NonNegativeInt, PositiveInt

from seqloom.registry import Spec, register
from seqloom.tasks.permutation import Permutation

STEMS: Final = ["".join(letters) for letters in product("bdfgklmnprtv", "aeiou", "lnrst")]
Words = Annotated[int, Field(ge=1, le=len(STEMS))]


@register("task", "reorder")
class Reorder(Permutation):
    """Reorder sentences of an artificial language: verbs move to the end, adjectives after their nouns.

    ``granda hundo vidas kato`` → ``hundo granda kato vidas``. The suffix of a word determines its class: -a for
    adjectives, -o for nouns, -as for verbs; ``kaj`` joins clauses. The target position of a word depends on the
    classes of the words around it.

    seed: random seed of the data.
    train: number of training pairs.
    dev: number of validation pairs.
    test: number of test pairs.
    clauses: maximum number of clauses in a sentence.
    adjectives: maximum number of adjectives before a noun.
    words: vocabulary size of each word class.
    """

    fields: ClassVar[dict[str, Spec]] = {"source": "whitespace", "target": "whitespace"}
    separator = " "

    def __init__(
        self, *, seed: int = 1, train: PositiveInt = 10_000, dev: PositiveInt = 500, test: PositiveInt = 1_000,
        clauses: PositiveInt = 3, adjectives: NonNegativeInt = 2, words: Words = 30,
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
            return clause, rank, phrase, -n  # a noun ends its phrase, so in reverse order it comes first

        return sorted(range(len(tokens)), key=key)
