"""Alignment accuracy of attention: how often a phoneme attends most to a letter of its own grapheme.

Words are generated from graphemes of one to three letters, each with one phoneme, so the true alignment is known. The
default model is trained on some words. On unseen words, a phoneme of a correct output counts as aligned if the source
letter with the largest attention weight is part of its grapheme.
"""

from random import Random
from typing import Any

GRAPHEMES = {
    "b": "b", "d": "d", "f": "f", "g": "g", "k": "k", "l": "l", "m": "m", "n": "n", "p": "p", "r": "r", "t": "t",
    "sch": "ʃ", "ch": "x", "ng": "ŋ", "ph": "f", "ck": "k", "a": "a", "e": "e", "i": "i", "o": "o", "u": "u",
    "ie": "iː", "ei": "aɪ", "au": "aʊ", "eu": "ɔɪ", "ee": "eː", "oo": "oː",
}  # fmt: skip
CONSONANTS = [grapheme for grapheme in GRAPHEMES if grapheme[0] not in "aeiou"]
VOWELS = [grapheme for grapheme in GRAPHEMES if grapheme[0] in "aeiou"]


def words(count: int, seed: int = 1) -> list[list[str]]:
    """Generate words of two to four syllables, as lists of graphemes; no two words are spelled alike."""
    random, found = Random(seed), dict[str, list[str]]()
    while len(found) < count:
        graphemes = []
        for _ in range(random.choice((2, 2, 3, 4))):
            graphemes += [random.choice(CONSONANTS), random.choice(VOWELS)]
        found.setdefault("".join(graphemes), graphemes)
    return list(found.values())


def alignment(train: int = 1000, test: int = 300, updates: int = 800) -> dict[str, Any]:
    """Train, and return the percentage of phonemes of unseen words that are aligned with the right letter."""
    import seqloom

    every = words(train + 2 * test)
    pairs = [("".join(word), " ".join(GRAPHEMES[grapheme] for grapheme in word)) for word in every]
    model = seqloom.fit(
        pairs[:train],
        dev=pairs[train : train + test],
        overrides={
            "model.hidden_size": 128,
            "model.dropout": 0.2,
            "train.updates": updates,
            "train.batch_sentences": 16,
        },
        quiet=True,
    )
    right = total = correct = 0
    for word, (source, target) in zip(every[train + test :], pairs[train + test :], strict=True):
        best, *_ = model.generate(source)
        if best.text != target:
            continue
        correct += 1
        owner = [number for number, grapheme in enumerate(word) for _ in grapheme]
        right += sum(owner[letter] == phoneme for letter, phoneme in best.alignment)
        total += len(word)
    return {"train": train, "exact": 100 * correct / test, "phonemes": total, "aligned": 100 * right / max(total, 1)}
