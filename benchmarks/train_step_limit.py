"""Number of multiply–adds of a training step of ``train_step.py``, by formula.

Counts all matrix multiplications with weights and those of attention (scores and contexts), for non-padding tokens
only: computation on padding is not necessary, so it is not part of the limit. In causal self-attention, a position
attends to itself and the positions before it. For every multiplication x W, the backward pass has one of the same
size for the gradient of x and one for the gradient of W, so it costs twice the forward pass. Embedding lookups,
nonlinearities, normalization, softmax, dropout, gradient clipping and Adam are not counted. Initial states that are
zero are counted like any others.
"""

from collections.abc import Mapping

import numpy as np

Lengths = np.ndarray


def multiply_adds(model: str, source: Lengths, target: Lengths, vocabulary: int, sizes: Mapping[str, float]) -> int:
    """Multiply–adds of one training step of one of our models, forward and backward.

    source, target: lengths of all sentences of the batch; target lengths include EOS.
    """
    H = int(sizes["size"])
    S, T, pairs = int(source.sum()), int(target.sum()), int((source * target).sum())
    logits = T * H * vocabulary
    if model == "transformer":
        F = int(sizes["feed_forward"])
        own_pairs = int((source**2).sum() + (target * (target + 1) // 2).sum())
        per_layer = (
            S * (4 * H * H + 2 * H * F)  # encoder: self-attention and feed-forward network
            + T
            * (
                6 * H * H + 2 * H * F
            )  # decoder: self-attention, feed-forward network, queries and outputs of cross-attention
            + S * 2 * H * H  # keys and values of cross-attention
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
    """One time step of an LSTM: four blocks, each a function of input and state."""
    return 4 * size * (inputs + size)


def gru(inputs: int, size: int) -> int:
    """One time step of a GRU: three blocks."""
    return 3 * size * (inputs + size)
