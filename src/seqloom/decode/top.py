"""The greatest few of many."""

import torch
from torch import Tensor

CHUNK = 64


def best(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k greatest of the last dimension, or all if there are fewer, greatest first; and where they are.

    They are in the k chunks with the greatest maxima: so of a whole vocabulary only maxima are taken, which is much
    faster than to rank it, and what is ranked is short.
    """
    if k == 1:  # faster still, and of equals it takes the first, as greedy search does
        first = x.max(-1, keepdim=True)
        return first.values, first.indices
    V = x.shape[-1]
    if 4 * k * CHUNK > V:
        top = x.topk(min(k, V))
        return top.values, top.indices
    whole = V // CHUNK * CHUNK
    number = x[..., :whole].view(*x.shape[:-1], -1, CHUNK).amax(-1).topk(k).indices
    place = (number[..., None] * CHUNK + torch.arange(CHUNK, device=x.device)).flatten(-2)
    rest = torch.arange(whole, V, device=x.device).expand(*place.shape[:-1], -1)
    place = torch.cat((place, rest), -1)
    top = x.gather(-1, place).topk(k)
    return top.values, place.gather(-1, top.indices)
