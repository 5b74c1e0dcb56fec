"""How many multiply–adds the answers of ``decode.py`` need, by formula.

Counted are the same products as in ``train_step_limit.py``, forward only and on real tokens only. Every source is
encoded once. The first step has one row for a sentence, as all its beams would be the same; every later one has as
many rows as the beam is wide. A product with a context is counted as the equations have it, once for every row; our
search makes it once for every step of the source, which is less, so that its share of the limit may pass 1.
"""

from collections.abc import Mapping

import numpy as np
from train_step_limit import Lengths, lstm
from train_step_limit import multiply_adds as forward_and_backward


def multiply_adds(
    model: str, source: Lengths, *, steps: int, beam: int, vocabulary: int, sizes: Mapping[str, float]
) -> int:
    """Multiply–adds of a search for answers of ``steps`` tokens, END among them, to sources of these lengths."""
    with_first, with_all = (
        _forward(model, source, np.full_like(source, tokens), vocabulary, sizes) for tokens in (1, steps)
    )
    return with_first + beam * (with_all - with_first)


def _forward(model: str, source: Lengths, target: Lengths, vocabulary: int, sizes: Mapping[str, float]) -> int:
    if model != "g2p":
        return forward_and_backward(model, source, target, vocabulary, sizes) // 3
    E, H = int(sizes["embedding"]), int(sizes["hidden"])
    S, T, pairs = int(source.sum()), int(target.sum()), int((source * target).sum())
    encoder = S * 2 * lstm(E, H) + S * 2 * H * H  # both directions, then keys
    decoder = T * (lstm(E + 2 * H, H) + H * H + H * vocabulary)  # cell, query, logits
    return encoder + decoder + pairs * (H + 2 * H)
