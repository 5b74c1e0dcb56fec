"""Several attentions side by side, each with its own projections."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.errors import SizeError
from seqloom.nn.attention.softmax import masked_softmax
from seqloom.nn.dropout import dropout
from seqloom.nn.probe import Probe, silent


class MultiHead(nn.Module):
    """Scaled dot-product attention by several heads, each with its own learned projections.

        head_n = softmax((W_q x)_n · (W_k m)_nᵀ / √(H/N)) (W_v m)_n
        y = W_o [head_1; …; head_N]

    Vaswani et al. 2017. The keys have no bias: it would raise all scores of a query alike, and the softmax does
    not see that.

    size: H, of queries, of the result, and by default of the memory.
    heads: N.
    memory_size: of what keys and values are made from.
    dropout: on the weights of attention.
    """

    def __init__(self, size: int, heads: int, *, memory_size: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        if heads < 1 or size % heads:
            raise SizeError(f"{heads} heads can't share a size of {size}: {size} / {heads} is not whole")
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

    def prepare(self, memory_BSH: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values by head, B N S H/N."""
        return self._by_head(self.key(memory_BSH)), self._by_head(self.value(memory_BSH))

    def forward(
        self,
        x_BTH: Tensor,
        keys_BNSD: Tensor,
        values_BNSD: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        weights: bool = False,
        probe: Probe = silent,
    ) -> tuple[Tensor, Tensor | None]:
        """What the heads see, B T H; and, asked for ``weights``, the mean of their weights, B T S.

        mask: B S or B T S, True where real. causal: the queries are the
            last T of S steps, and each sees those up to itself.
        """
        self._check(x_BTH, keys_BNSD, mask)
        queries_BNTD = self._by_head(self.query(x_BTH))
        hidden_BNTS = self._hidden(queries_BNTD, keys_BNSD, mask, causal)
        if not weights and not (self.training and self.dropout) and probe is silent:
            shown = None if hidden_BNTS is None else ~hidden_BNTS
            seen_BNTD = F.scaled_dot_product_attention(queries_BNTD, keys_BNSD, values_BNSD, shown)
            return self._joined(seen_BNTD), None
        scores_BNTS = queries_BNTD @ keys_BNSD.mT / queries_BNTD.shape[-1] ** 0.5
        weights_BNTS = probe("attention", masked_softmax(scores_BNTS, hidden_BNTS))
        seen_BNTD = dropout(weights_BNTS, self.dropout, self.training) @ values_BNSD
        return self._joined(seen_BNTD), weights_BNTS.mean(1) if weights else None

    def _check(self, x_BTH: Tensor, keys_BNSD: Tensor, mask: Tensor | None) -> None:
        if x_BTH.dim() != 3 or x_BTH.shape[2] != self.query.in_features:
            raise SizeError(
                f"queries of shape {tuple(x_BTH.shape)}: they are sentences × steps × {self.query.in_features}"
            )
        (B, T, _), S = x_BTH.shape, keys_BNSD.shape[2]
        if mask is not None and (mask.dtype != torch.bool or mask.shape not in ((B, S), (B, T, S))):
            raise SizeError(
                f"the mask must be bool and of shape {(B, S)} or {(B, T, S)}; it is {mask.dtype} and "
                f"{tuple(mask.shape)}"
            )

    @staticmethod
    def _hidden(queries_BNTD: Tensor, keys_BNSD: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
        """What a query may not see, for all heads alike; None: it may see everything."""
        hidden_BNTS = None if mask is None else ~(mask[:, None] if mask.dim() == 3 else mask[:, None, None])
        if causal:
            T, S = queries_BNTD.shape[2], keys_BNSD.shape[2]
            later_TS = torch.ones(T, S, dtype=torch.bool, device=queries_BNTD.device).triu(1 + S - T)
            hidden_BNTS = later_TS if hidden_BNTS is None else hidden_BNTS | later_TS
        return hidden_BNTS

    def _by_head(self, x_BTH: Tensor) -> Tensor:
        B, T, _ = x_BTH.shape
        return x_BTH.view(B, T, self.heads, -1).transpose(1, 2)

    def _joined(self, x_BNTD: Tensor) -> Tensor:
        return self.out(x_BNTD.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]
