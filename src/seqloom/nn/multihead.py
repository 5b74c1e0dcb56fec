"""Multi-head attention."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.errors import ShapeError
from seqloom.nn.attention.softmax import masked_softmax
from seqloom.nn.dropout import dropout
from seqloom.nn.probe import Probe, no_probe


class MultiHeadAttention(nn.Module):
    """Multi-head scaled dot-product attention; self-attention or cross-attention, depending on the memory m.

        head_n = softmax((W_q x)_n · (W_k m)_nᵀ / √(H/N)) (W_v m)_n
        y = W_o [head_1; …; head_N]

    Vaswani et al. 2017. The key projection has no bias: it would add the same number to all scores of a query,
    and softmax is invariant to that.

    size: H, the size of queries, outputs and, by default, the memory.
    heads: N, the number of heads; it must divide the size.
    memory_size: size of the vectors from which keys and values are computed; by default H.
    dropout: dropout probability of attention weights.
    """

    def __init__(self, size: int, heads: int, *, memory_size: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        if heads < 1 or size % heads:
            raise ShapeError(
                f"heads={heads} is invalid: the hidden size, {size}, must be divisible by the number of heads"
            )
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(memory_size or size, size, bias=False)
        self.value = nn.Linear(memory_size or size, size)
        self.out = nn.Linear(size, size)
        for linear in (self.query, self.key, self.value, self.out):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def project_memory(self, memory_BSH: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of all heads, B N S H/N each."""
        return self._split_heads(self.key(memory_BSH)), self._split_heads(self.value(memory_BSH))

    def forward(
        self,
        x_BTH: Tensor,
        keys_BNSD: Tensor,
        values_BNSD: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        return_attention: bool = False,
        probe: Probe = no_probe,
    ) -> tuple[Tensor, Tensor | None]:
        """Outputs B T H and, with ``return_attention``, the attention weights averaged over heads, B T S, else None.

        keys_BNSD, values_BNSD: from ``project_memory``; D is H/N.
        mask: B S or B T S, True for keys that may be attended to.
        causal: the queries are the last T of S steps, and each attends only to steps up to its own.
        """
        self._check(x_BTH, keys_BNSD, mask)
        queries_BNTD = self._split_heads(self.query(x_BTH))
        masked_BNTS = self._masked(queries_BNTD, keys_BNSD, mask, causal)
        if not return_attention and not (self.training and self.dropout) and probe is no_probe:
            attn_mask = None if masked_BNTS is None else ~masked_BNTS
            context_BNTD = F.scaled_dot_product_attention(queries_BNTD, keys_BNSD, values_BNSD, attn_mask)
            return self._project_out(context_BNTD), None
        scores_BNTS = queries_BNTD @ keys_BNSD.mT / queries_BNTD.shape[-1] ** 0.5
        weights_BNTS = probe("attention", masked_softmax(scores_BNTS, masked_BNTS))
        context_BNTD = dropout(weights_BNTS, self.dropout, self.training) @ values_BNSD
        return self._project_out(context_BNTD), weights_BNTS.mean(1) if return_attention else None

    def _check(self, x_BTH: Tensor, keys_BNSD: Tensor, mask: Tensor | None) -> None:
        if x_BTH.dim() != 3 or x_BTH.shape[2] != self.query.in_features:
            raise ShapeError(
                f"queries must have the shape (batch, steps, {self.query.in_features}), but have {tuple(x_BTH.shape)}"
            )
        (B, T, _), S = x_BTH.shape, keys_BNSD.shape[2]
        if mask is not None and (mask.dtype != torch.bool or mask.shape not in ((B, S), (B, T, S))):
            raise ShapeError(
                f"the mask must be bool, with shape {(B, S)} or {(B, T, S)}; it is {mask.dtype}, with shape "
                f"{tuple(mask.shape)}"
            )

    @staticmethod
    def _masked(queries_BNTD: Tensor, keys_BNSD: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
        """True for keys that a query must not attend to, the same for all heads; None if it may attend to all."""
        masked_BNTS = None if mask is None else ~(mask[:, None] if mask.dim() == 3 else mask[:, None, None])
        if causal:
            T, S = queries_BNTD.shape[2], keys_BNSD.shape[2]
            future_TS = torch.ones(T, S, dtype=torch.bool, device=queries_BNTD.device).triu(1 + S - T)
            masked_BNTS = future_TS if masked_BNTS is None else masked_BNTS | future_TS
        return masked_BNTS

    def _split_heads(self, x_BTH: Tensor) -> Tensor:
        B, T, _ = x_BTH.shape
        return x_BTH.view(B, T, self.heads, -1).transpose(1, 2)

    def _project_out(self, x_BNTD: Tensor) -> Tensor:
        return self.out(x_BNTD.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]
