"""Layers of the Transformer: attention and a position-wise network, each on a residual path.

    before:  x ← x + f(norm(x))          after:  x ← norm(x + f(x))

Vaswani et al. 2017 normalise after; before trains without warm-up (Xiong et al. 2020), and then wants one more norm
at the top of the stack.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.nn.dropout import Dropout
from seqloom.nn.memory import by_sentence
from seqloom.nn.multihead import MultiHead
from seqloom.nn.probe import Probe, each_step, silent, within

Norm = Literal["before", "after"]
FeedForwardActivation = Literal["relu", "gelu"]


class Residual(nn.Module):
    """One residual path and its layer norm, before or after."""

    def __init__(self, size: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.place = norm
        self.norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        """What the function on this path reads."""
        return self.norm(x) if self.place == "before" else x

    def join(self, x: Tensor, fx: Tensor) -> Tensor:
        """Its result, joined to the path."""
        x = x + self.dropout(fx)
        return self.norm(x) if self.place == "after" else x


class FeedForward(nn.Sequential):
    """The position-wise network: W_2 dropout(φ(W_1 x + b_1)) + b_2."""

    def __init__(self, size: int, inner: int, activation: FeedForwardActivation, dropout: float) -> None:
        first, second = nn.Linear(size, inner), nn.Linear(inner, size)
        super().__init__(first, nn.ReLU() if activation == "relu" else nn.GELU(), Dropout(dropout), second)
        for linear in (first, second):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)


class EncoderLayer(nn.Module):
    """Self-attention, then the position-wise network."""

    def __init__(
        self, size: int, heads: int, feed_forward: int, norm: Norm, activation: FeedForwardActivation, dropout: float
    ) -> None:
        super().__init__()
        self.self_attention = MultiHead(size, heads, dropout=dropout)
        self.self_path = Residual(size, norm, dropout)
        self.feed_forward = FeedForward(size, feed_forward, activation, dropout)
        self.feed_path = Residual(size, norm, dropout)

    def forward(self, x_BSH: Tensor, mask_BS: Tensor | None, probe: Probe = silent) -> Tensor:
        y = self.self_path.enter(x_BSH)
        y, _ = self.self_attention(y, *self.self_attention.prepare(y), mask_BS, probe=within(probe, "self."))
        x_BSH = self.self_path.join(x_BSH, y)
        return self.feed_path.join(x_BSH, self.feed_forward(self.feed_path.enter(x_BSH)))


class DecoderLayer(nn.Module):
    """Self-attention over the past, attention over the memory (if there is one), the position-wise network."""

    def __init__(
        self,
        size: int,
        heads: int,
        feed_forward: int,
        norm: Norm,
        activation: FeedForwardActivation,
        dropout: float,
        memory_size: int | None,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHead(size, heads, dropout=dropout)
        self.self_path = Residual(size, norm, dropout)
        self.cross_attention: MultiHead | None = None
        if memory_size is not None:
            self.cross_attention = MultiHead(size, heads, memory_size=memory_size, dropout=dropout)
            self.cross_path = Residual(size, norm, dropout)
        self.feed_forward = FeedForward(size, feed_forward, activation, dropout)
        self.feed_path = Residual(size, norm, dropout)

    def forward(
        self,
        x_RTH: Tensor,
        past: tuple[Tensor, Tensor] | None,
        memory: tuple[Tensor, Tensor, Tensor | None] | None,
        *,
        weights: bool = False,
        probe: Probe = silent,
        by_step: bool = True,
    ) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor | None]:
        """The layer on T steps.

        past: cached keys and values of the t steps before, R N t H/N each; None: there were none.
        memory: prepared keys and values B N S H/N, and the mask B S or None; each sentence's R/B beams see the same.
        by_step: whether the probe's names have the number of the step, counted from the first of these; without it
            there is one step, whose number the caller knows.

        Returns the steps, keys and values including their own, and (if asked) the weights on the memory R T S.
        """
        R, T, _ = x_RTH.shape
        of_self, of_cross = within(probe, "self."), within(probe, "cross.")
        if by_step:
            of_self, of_cross = each_step(of_self, T, growing=True), each_step(of_cross, T)
        y = self.self_path.enter(x_RTH)
        keys, values = self.self_attention.prepare(y)
        if past is not None and past[0].shape[2]:
            keys, values = torch.cat((past[0], keys), 2), torch.cat((past[1], values), 2)
        y, _ = self.self_attention(y, keys, values, causal=T > 1, probe=of_self)
        x_RTH = self.self_path.join(x_RTH, y)
        seen: Tensor | None = None
        if self.cross_attention is not None and memory is not None:
            # To attention, the beams of a sentence are further steps of its target: the memory is not copied.
            y = by_sentence(self.cross_path.enter(x_RTH), memory[0].shape[0]).flatten(1, 2)
            y, seen = self.cross_attention(y, *memory, weights=weights, probe=of_cross)
            x_RTH = self.cross_path.join(x_RTH, y.view(R, T, -1))
            seen = None if seen is None else seen.view(R, T, -1)
        x_RTH = self.feed_path.join(x_RTH, self.feed_forward(self.feed_path.enter(x_RTH)))
        return x_RTH, (keys, values), seen
