"""Answers to judge, made up."""

import numpy as np

from seqloom.metrics import Answers

TEXT = "The cat , the Dog and 3 old mice sat on a mat ; it's raining near Müller's house ."
WORDS = TEXT.split()


def answers(hypotheses, references, lengths=None, **model):
    """Answers whose sources do not matter."""
    n = len(references)
    lengths = np.ones(n, dtype=int) if lengths is None else np.asarray(lengths)
    return Answers(hypotheses, references, ["x"] * n, lengths, **model)


def sentences(n, seed, *, longest=20):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(1, longest))) for _ in range(n)]


def spoilt(texts, share, seed):
    """The texts with a share of their words replaced, and sometimes the last word missing."""
    random = np.random.default_rng(seed)
    spoil = [[str(random.choice(WORDS)) if random.random() < share else w for w in t.split()] for t in texts]
    return [" ".join(words[: len(words) - int(random.random() < share)]) for words in spoil]
