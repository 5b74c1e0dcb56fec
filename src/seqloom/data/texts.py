"""What kind of text some texts are, and the tokenizer and the metrics that fit it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

HELD_OUT = 5
"""One text in so many tells whether the words of the others are all there are."""
CLOSED = 10
"""A closed vocabulary has each of its words this often on average."""
SHORT = 24
"""Characters of a short text, on average, without spaces."""
FEW_WORDS = 5
SYMBOL = 2.5
"""Characters of a symbol, on average: a phoneme, not a word."""
COPIED, NEW = 0.5, 0.05
"""Words are copied if sources have this share of the new ones, and this share of all words is new."""
NGRAM = 4
"""BLEU counts sequences of up to four words: of shorter references it is 0, however good the output."""


@dataclass(frozen=True)
class Kind:
    """Facts about texts.

    words, letters: on average, of a text.
    several: the share of texts that have more than one word.
    long: the share of texts that have at least four words.
    unseen: the share of words that are not among those of the other texts.
    closed: whether the words are a closed vocabulary: each is frequent, and none is unseen.
    """

    words: float
    letters: float
    several: float
    long: float
    unseen: float
    closed: bool

    @classmethod
    def of(cls, texts: Sequence[str], others: Sequence[str] = ()) -> "Kind":
        """The facts about some texts; others: those of the validation set, which may have unseen words."""
        split = [text.split() for text in texts]
        count = max(len(split), 1)
        frequency = Counter(word for words in split for word in words)
        total = max(frequency.total(), 1)
        known = {word for number, words in enumerate(split) if number % HELD_OUT for word in words}
        held_out = [word for words in split[::HELD_OUT] for word in words]
        unseen = sum(word not in known for word in held_out) / max(len(held_out), 1)
        return cls(
            words=total / count,
            letters=sum(len(word) * n for word, n in frequency.items()) / count,
            several=sum(len(words) > 1 for words in split) / count,
            long=sum(len(words) >= NGRAM for words in split) / count,
            unseen=unseen,
            closed=bool(frequency)
            and total >= CLOSED * len(frequency)
            and unseen < 0.001
            and all(word in frequency for text in others for word in text.split()),
        )

    @property
    def tokenizer(self) -> str:
        """The tokenizer that fits.

        ``symbols`` for phonemes and for closed vocabularies (actions, tags, query languages); ``character`` for
        single words, and for short texts with many new words (inflected forms with a particle, dates); else ``bpe``.
        """
        if self.closed or (self.several >= 0.1 and self.letters <= SYMBOL * self.words):
            return "symbols"
        is_short = self.letters <= SHORT and self.words <= FEW_WORDS and self.unseen >= 0.1
        return "character" if self.several < 0.1 or is_short else "bpe"

    def metrics(self, tokenizer: str) -> tuple[str, ...]:
        """The metrics that fit targets of this kind and tokenizer; the first decides which weights are best."""
        if tokenizer == "symbols" or self.closed:
            return ("wer" if self.letters <= SYMBOL * self.words and self.several >= 0.1 else "exact", "ser")
        return ("bleu", "chrf", "ter") if self.long >= 0.5 else ("exact", "chrf")


def copies_words(sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Whether most new words of the targets are in their sources: names, identifiers, numbers.

    A new word is one that no other text shows. To copy it, a model must spell it: byte-pair encoding cuts it into
    pieces that differ from one side to the other and that little data shows too rarely to be learned.
    """
    split = [target.split() for target in targets]
    known = {word for number, words in enumerate(split) if number % HELD_OUT for word in words}
    held_out = [
        (source, word) for source, words in list(zip(sources, split, strict=True))[::HELD_OUT] for word in words
    ]
    new = [(source, word) for source, word in held_out if word not in known]
    copied = sum(word in source for source, word in new)
    return len(new) >= NEW * max(len(held_out), 1) and copied > COPIED * len(new)
