"""Synthetic evaluation data."""

import numpy as np

from seqloom.metrics import EvaluationData

TEXT = "The cat , the Dog and 3 old mice sat on a mat ; it's raining near Müller's house ."
WORDS = TEXT.split()


def make_data(hypotheses, references, lengths=None, **model):
    """Evaluation data with dummy sources."""
    n = len(references)
    lengths = np.ones(n, dtype=int) if lengths is None else np.asarray(lengths)
    return EvaluationData(hypotheses, references, ["x"] * n, lengths, **model)


def sentences(n, seed, *, max_words=20):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(1, max_words))) for _ in range(n)]


def corrupted(texts, probability, seed):
    """The texts with words replaced, and the last word removed, with the given probability."""
    random = np.random.default_rng(seed)
    replaced = [[str(random.choice(WORDS)) if random.random() < probability else w for w in t.split()] for t in texts]
    return [" ".join(words[: len(words) - int(random.random() < probability)]) for words in replaced]
