"""Statistics of text, and the default tokenizer and metrics for it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

HELD_OUT = 5
"""Every fifth text is held out to measure how many of its words are out-of-vocabulary (OOV)."""
CLOSED_COUNT = 10
"""Minimum average count of a word in a closed vocabulary."""
SHORT = 24
"""Maximum average length of a short text, in characters without spaces."""
FEW_WORDS = 5
SYMBOL_LENGTH = 2.5
"""Maximum average length of a symbol, such as a phoneme, in characters; words are longer."""
COPIED, NEW = 0.5, 0.05
"""Words are copied if more than this share of the new words is in the sources, and at least this share is new."""
NGRAM = 4
"""BLEU counts n-grams of up to four words: it is 0 for shorter references, however good the output."""


@dataclass(frozen=True)
class TextStatistics:
    """Statistics of a sample of texts.

    words, letters: average number per text.
    several: share of the texts that have more than one word.
    long: share of the texts that have at least four words.
    unseen: share of the words in held-out texts that are out-of-vocabulary (OOV), i.e. in none of the other texts.
    closed: whether the vocabulary is closed: every word is frequent, and none is out-of-vocabulary.
    """

    words: float
    letters: float
    several: float
    long: float
    unseen: float
    closed: bool

    @classmethod
    def of(cls, texts: Sequence[str], others: Sequence[str] = ()) -> "TextStatistics":
        """Compute the statistics of some texts.

        others: validation texts; if they contain other words, the vocabulary is not closed.
        """
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
            and total >= CLOSED_COUNT * len(frequency)
            and unseen < 0.001
            and all(word in frequency for text in others for word in text.split()),
        )

    @property
    def tokenizer(self) -> str:
        """The default tokenizer.

        ``whitespace`` for phonemes and for closed vocabularies (actions, tags, query languages). ``character`` for
        single words, and for short texts with many new words (inflected forms with a particle, dates). Otherwise
        ``bpe``.
        """
        if self.closed or (self.several >= 0.1 and self.letters <= SYMBOL_LENGTH * self.words):
            return "whitespace"
        is_short = self.letters <= SHORT and self.words <= FEW_WORDS and self.unseen >= 0.1
        return "character" if self.several < 0.1 or is_short else "bpe"

    def metrics(self, tokenizer: str) -> tuple[str, ...]:
        """The default metrics for targets of this kind and tokenizer; the first is the validation metric."""
        if tokenizer == "whitespace" or self.closed:
            return (
                "sequence_error_rate"
                if self.letters <= SYMBOL_LENGTH * self.words and self.several >= 0.1
                else "exact_match",
                "per",
            )
        return ("bleu", "chrf", "ter") if self.long >= 0.5 else ("exact_match", "chrf")


def copies_words(sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Whether most new words of the targets occur in their sources, as names, identifiers and numbers do.

    A new word is one that occurs in no other text. A model can copy it only by spelling it. Byte-pair encoding splits
    it into pieces that differ between source and target and that are too rare to be learned from little data.
    """
    split = [target.split() for target in targets]
    known = {word for number, words in enumerate(split) if number % HELD_OUT for word in words}
    held_out = [
        (source, word) for source, words in list(zip(sources, split, strict=True))[::HELD_OUT] for word in words
    ]
    new = [(source, word) for source, word in held_out if word not in known]
    copied = sum(word in source for source, word in new)
    return len(new) >= NEW * max(len(held_out), 1) and copied > COPIED * len(new)
