"""Error rates by edit distance: characters (CER) and whitespace-separated symbols such as phonemes (PER)."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from seqloom.metrics.base import EvaluationData, Floats, Metric, rate
from seqloom.registry import register


def symbols(text: str, lowercase: bool = False) -> list[str]:
    """A text split at spaces. Only U+0020 separates: a no-break space belongs to its symbol."""
    return [symbol for symbol in (text.lower() if lowercase else text).split(" ") if symbol]


class EditRate(Metric):
    """Insertions, deletions and substitutions per 100 units of the references.

    rate = 100 · Σ edits / Σ units of the reference. If an example has several references, the one with the fewest
    edits counts; on a tie, the longest.
    """

    higher_is_better = False

    def __init__(self, *, lowercase: bool = False) -> None:
        self.lowercase = lowercase

    @abstractmethod
    def units(self, text: str) -> Sequence[str]:
        """A text split into the units that edits are counted in."""

    def statistics(self, data: EvaluationData) -> Floats:
        rows = []
        for text, references in data.pairs(self.name):
            hypothesis = self.units(text)
            candidates = [self.units(reference) for reference in references]
            edits = ((Levenshtein.distance(hypothesis, c), len(c)) for c in candidates)
            rows.append(min(edits, key=lambda e: (e[0], -e[1])))
        return np.array(rows, dtype=np.float64)

    def value(self, totals: Floats) -> Floats:
        return rate(totals)


@register("metric", "per")
class PhonemeErrorRate(EditRate):
    """Phoneme error rate (PER): edits per 100 whitespace-separated symbols of the references.

    A symbol is a phoneme, a tag or a word. If the symbols are the words of a sentence, this is the word error rate of
    speech recognition.

    lowercase: ignore case.
    """

    name = "per"

    def units(self, text: str) -> list[str]:
        return symbols(text, self.lowercase)


@register("metric", "cer")
class CharacterErrorRate(EditRate):
    """Character error rate (CER): edits per 100 characters of the references, spaces included.

    lowercase: ignore case.
    """

    name = "cer"

    def units(self, text: str) -> str:
        return " ".join(symbols(text, self.lowercase))
