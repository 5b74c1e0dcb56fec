"""Transformer layers: attention and feed-forward sub-layers with residual connections, pre-norm or post-norm.

    pre-norm:  x ← x + f(norm(x))          post-norm:  x ← norm(x + f(x))

Vaswani et al. 2017 use post-norm. Pre-norm trains without warm-up (Xiong et al. 2020) and needs a final norm on top
of the stack.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.nn.dropout import Dropout
from seqloom.nn.memory import split_beams
from seqloom.nn.multihead import MultiHeadAttention
from seqloom.nn.probe import Probe, each_step, no_probe, scoped

NormPlacement = Literal["pre", "post"]
FeedForwardActivation = Literal["relu", "gelu"]


class Residual(nn.Module):
    """A residual connection with layer normalization, before the sub-layer (pre-norm) or after it (post-norm)."""

    def __init__(self, size: int, layer_norm: NormPlacement, dropout: float) -> None:
        super().__init__()
        self.layer_norm = layer_norm
        self.norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    def input(self, x: Tensor) -> Tensor:
        """The input of the sub-layer f: norm(x) with pre-norm, x with post-norm."""
        return self.norm(x) if self.layer_norm == "pre" else x

    def add(self, x: Tensor, fx: Tensor) -> Tensor:
        """The output of the sub-layer added to x; normalized with post-norm."""
        x = x + self.dropout(fx)
        return self.norm(x) if self.layer_norm == "post" else x


class FeedForward(nn.Sequential):
    """Position-wise feed-forward network: W_2 dropout(φ(W_1 x + b_1)) + b_2."""

    def __init__(self, size: int, ff_size: int, activation: FeedForwardActivation, dropout: float) -> None:
        first, second = nn.Linear(size, ff_size), nn.Linear(ff_size, size)
        super().__init__(first, nn.ReLU() if activation == "relu" else nn.GELU(), Dropout(dropout), second)
        for linear in (first, second):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)


class EncoderLayer(nn.Module):
    """Transformer encoder layer: self-attention, then a feed-forward network; B S H → B S H."""

    def __init__(
        self,
        size: int,
        heads: int,
        ff_size: int,
        layer_norm: NormPlacement,
        activation: FeedForwardActivation,
        dropout: float,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(size, heads, dropout=dropout)
        self.self_path = Residual(size, layer_norm, dropout)
        self.feed_forward = FeedForward(size, ff_size, activation, dropout)
        self.feed_path = Residual(size, layer_norm, dropout)

    def forward(self, x_BSH: Tensor, mask_BS: Tensor | None, probe: Probe = no_probe) -> Tensor:
        y = self.self_path.input(x_BSH)
        y, _ = self.self_attention(y, *self.self_attention.project_memory(y), mask_BS, probe=scoped(probe, "self."))
        x_BSH = self.self_path.add(x_BSH, y)
        return self.feed_path.add(x_BSH, self.feed_forward(self.feed_path.input(x_BSH)))


class DecoderLayer(nn.Module):
    """Transformer decoder layer: causal self-attention, cross-attention (with a memory), feed-forward network."""

    def __init__(
        self,
        size: int,
        heads: int,
        ff_size: int,
        layer_norm: NormPlacement,
        activation: FeedForwardActivation,
        dropout: float,
        memory_size: int | None,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(size, heads, dropout=dropout)
        self.self_path = Residual(size, layer_norm, dropout)
        self.cross_attention: MultiHeadAttention | None = None
        if memory_size is not None:
            self.cross_attention = MultiHeadAttention(size, heads, memory_size=memory_size, dropout=dropout)
            self.cross_path = Residual(size, layer_norm, dropout)
        self.feed_forward = FeedForward(size, ff_size, activation, dropout)
        self.feed_path = Residual(size, layer_norm, dropout)

    def forward(
        self,
        x_RTH: Tensor,
        kv_cache: tuple[Tensor, Tensor] | None,
        memory: tuple[Tensor, Tensor, Tensor | None] | None,
        *,
        return_attention: bool = False,
        probe: Probe = no_probe,
        by_step: bool = True,
    ) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor | None]:
        """Apply the layer to T steps, R T H.

        kv_cache: keys and values of the t previous steps, R N t H/N each; None at the start.
        memory: projected keys and values B N S H/N, and the mask B S or None; shared by the R/B beams of a sentence.
        by_step: call the probe once per step and append the step number, counted from 0, to its names. False is for
            incremental decoding with a single step, whose number the caller appends.

        Returns the outputs, the updated KV cache, and the cross-attention weights R T S (None unless
        ``return_attention``).
        """
        R, T, _ = x_RTH.shape
        self_probe, cross_probe = scoped(probe, "self."), scoped(probe, "cross.")
        if by_step:
            self_probe, cross_probe = each_step(self_probe, T, causal=True), each_step(cross_probe, T)
        y = self.self_path.input(x_RTH)
        keys, values = self.self_attention.project_memory(y)
        if kv_cache is not None and kv_cache[0].shape[2]:
            keys, values = torch.cat((kv_cache[0], keys), 2), torch.cat((kv_cache[1], values), 2)
        y, _ = self.self_attention(y, keys, values, causal=T > 1, probe=self_probe)
        x_RTH = self.self_path.add(x_RTH, y)
        weights: Tensor | None = None
        if self.cross_attention is not None and memory is not None:
            # Attention treats the beams of a sentence as additional steps, so the memory is not copied per beam.
            y = split_beams(self.cross_path.input(x_RTH), memory[0].shape[0]).flatten(1, 2)
            y, weights = self.cross_attention(y, *memory, return_attention=return_attention, probe=cross_probe)
            x_RTH = self.cross_path.add(x_RTH, y.view(R, T, -1))
            weights = None if weights is None else weights.view(R, T, -1)
        x_RTH = self.feed_path.add(x_RTH, self.feed_forward(self.feed_path.input(x_RTH)))
        return x_RTH, (keys, values), weights
