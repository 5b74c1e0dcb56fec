"""Number of multiply–adds of the searches in ``decode.py``, by formula.

Counts the matrix multiplications of ``train_step_limit.py``, forward pass only and non-padding tokens only. Every
source is encoded once. The first step has one row per sentence, since all its hypotheses would be equal; every later
step has as many rows as the beam size. A multiplication with a context vector is counted once per row, as in the
equations. Our search does it once per source position, which is less work, so its share of the limit can exceed 1.
"""

from collections.abc import Mapping

import numpy as np
from train_step_limit import Lengths, lstm
from train_step_limit import multiply_adds as forward_and_backward


def multiply_adds(
    model: str, source: Lengths, *, steps: int, beam: int, vocabulary: int, sizes: Mapping[str, float]
) -> int:
    """Multiply–adds of a search that generates ``steps`` tokens, EOS included, for sources of these lengths."""
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
