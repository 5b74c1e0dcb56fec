"""How many multiply–adds a training step of ``train_step.py`` needs, by formula.

Counted are all products with weights and all of attention's (scores and contexts), on real tokens only: what
padding costs is not needed, so it does not belong to the limit. A causal step attends to what lies before it and to
itself. Every product x W costs as much again for the gradient of x and once more for that of W, so the backward pass
is twice the forward one. Embeddings are looked up, not multiplied; nonlinearities, norms, softmax, dropout, clipping
and Adam are left out. (First states that are zero are counted like any other.)
"""

from collections.abc import Mapping

import numpy as np

Lengths = np.ndarray


def multiply_adds(model: str, source: Lengths, target: Lengths, vocabulary: int, sizes: Mapping[str, float]) -> int:
    """Multiply–adds of one step of one of our models, forward and backward.

    source, target: the length of every sentence of the batch, the target's with END.
    """
    H = int(sizes["size"])
    S, T, pairs = int(source.sum()), int(target.sum()), int((source * target).sum())
    logits = T * H * vocabulary
    if model == "transformer":
        F = int(sizes["feed_forward"])
        own_pairs = int((source**2).sum() + (target * (target + 1) // 2).sum())
        per_layer = (
            S * (4 * H * H + 2 * H * F)  # the encoder's attention and position-wise network
            + T * (6 * H * H + 2 * H * F)  # the decoder's: all of its own attention, queries and results of the other
            + S * 2 * H * H  # that one's keys and values
            + (own_pairs + pairs) * 2 * H
        )
        return 3 * (int(sizes["layers"]) * per_layer + logits)
    B = len(source)
    if model == "bilstm":
        encoder = S * 2 * lstm(H, H) + S * 2 * H * H  # both directions, then keys
        bridge = B * 2 * H * 2 * H
        decoder = T * (lstm(2 * H, H) + H * H + 3 * H * H)  # cell, query, readout
        attention = pairs * (H + 2 * H)
    elif model == "luong":
        encoder = S * 2 * lstm(H, H) + S * H * H  # two layers, then keys
        bridge = 0
        decoder = T * (lstm(2 * H, H) + lstm(H, H) + 2 * H * H)  # both cells, readout
        attention = pairs * (H + H)
    else:
        encoder = S * 2 * gru(H, H) + S * 2 * H * H
        bridge = B * H * H
        decoder = T * (gru(3 * H, H) + H * H + 4 * H * 2 * H)  # cell, query, maxout over pairs
        attention = pairs * (H + 2 * H)
    return 3 * (encoder + bridge + decoder + attention + logits)


def lstm(inputs: int, size: int) -> int:
    """A step of an LSTM: four gates, each reading input and state."""
    return 4 * size * (inputs + size)


def gru(inputs: int, size: int) -> int:
    """A step of a GRU, which has three."""
    return 3 * size * (inputs + size)
