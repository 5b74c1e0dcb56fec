"""Attention as a layer: keys, queries, a score, a normaliser, a context."""

from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.batch import check_mask
from seqloom.errors import OptionError, SizeError
from seqloom.nn.attention.base import Normaliser, Score
from seqloom.nn.probe import Probe, silent
from seqloom.registry import Count, Natural, Spec, build, split

Activation = Literal["tanh", "sigmoid", "relu"]
ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "relu": nn.ReLU}


class Attention(nn.Module):
    """Soft look-up: a query is compared with every key, and the values are averaged by how well it matched.

        k_s = key(h_s)        q_t = query(s_t)
        w_ts = normaliser_s(score(q_t, k_s))
        context_t = Σ_s w_ts · value_s

    query_size, key_size: sizes of what queries and keys are made from.

    score: how a query and a key are compared.
    normaliser: how scores become weights.
    key_layers, query_layers: how many learned layers make the keys (queries) from what is given; 0: they *are* that.
    key_activation, query_activation: σ in k = σ(W h + b), on every such layer; None: k = W h.
    size: width of such layers; by default the query's.
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        score: Spec = "additive",
        normaliser: Spec = "softmax",
        key_layers: Natural = 0,
        query_layers: Natural = 0,
        key_activation: Activation | None = None,
        query_activation: Activation | None = None,
        size: Count | None = None,
    ) -> None:
        super().__init__()
        self.sizes = (query_size, key_size)
        if size is not None and not key_layers and not query_layers:
            raise OptionError("attention: size is the width of key and query layers, and there are none")
        for side, layers, activation in (
            ("key", key_layers, key_activation),
            ("query", query_layers, query_activation),
        ):
            if activation is not None and not layers:
                raise OptionError(f"attention: {side}_activation={activation!r} needs {side}_layers of 1 or more")
        size = size or query_size
        self.query_layers = _perceptron(query_size, size, query_layers, query_activation)
        self.key_layers = _perceptron(key_size, size, key_layers, key_activation)
        self.score: Score = build(
            "score", score, size if query_layers else query_size, size if key_layers else key_size
        )
        self.normaliser: Normaliser = build("normaliser", normaliser)
        name, _ = split("score", score)
        if self.score.static and (key_layers or query_layers):
            raise OptionError(f"attention: score {name!r} reads no key or query: leave out their layers")
        allowed = self.normaliser.scores
        if allowed is not None and name not in allowed:
            hard, _ = split("normaliser", normaliser)
            raise OptionError(f"normaliser {hard!r} works with the score {' or '.join(allowed)}, not {name!r}")

    def inert(self) -> dict[str, str]:
        """Parameters that get no gradient, by prefix, with the reason."""
        if self.normaliser.differentiable:
            return {}
        reason = "a hard choice of the best match passes no gradient to keys and queries"
        return dict.fromkeys(("query_layers.", "key_layers.", "score."), reason)

    def prepare(self, keys_BSH: Tensor) -> Tensor:
        """All that can be computed of the keys before any query is there."""
        return self.score.prepare(self.key_layers(keys_BSH))

    def weigh(
        self,
        query_BTH: Tensor,
        prepared_BSD: Tensor,
        mask: Tensor | None = None,
        *,
        position_BT: Tensor | None = None,
        probe: Probe = silent,
    ) -> Tensor:
        """Weights B T S, with keys that ``prepare`` made; mask: B S or B T S, True where real."""
        scores_BTS = self.score(self.query_layers(query_BTH), prepared_BSD, position_BT)
        mask_BTS = mask if mask is None or mask.dim() == 3 else mask[:, None]
        return probe("attention", self.normaliser(scores_BTS, mask_BTS))

    def forward(
        self,
        values_BSH: Tensor,
        keys_BSH: Tensor,
        queries_BTH: Tensor,
        mask: Tensor | None = None,
        *,
        probe: Probe = silent,
    ) -> tuple[Tensor, Tensor]:
        """Alone as a layer: values, keys and queries in; context B T H and weights B T S out."""
        given = (queries_BTH.shape[-1], keys_BSH.shape[-1])
        if given != self.sizes:
            raise SizeError(f"attention between queries and keys of sizes {self.sizes} was given {given}")
        if values_BSH.shape[:2] != keys_BSH.shape[:2]:
            raise SizeError(
                f"every value needs a key: got {tuple(values_BSH.shape[:2])} values "
                f"and {tuple(keys_BSH.shape[:2])} keys"
            )
        if len(queries_BTH) != len(keys_BSH):
            raise SizeError(f"got queries of {len(queries_BTH)} rows for keys of {len(keys_BSH)}")
        if mask is not None:
            B, T, S = *queries_BTH.shape[:2], keys_BSH.shape[1]
            if mask.dtype != torch.bool or mask.shape not in ((B, S), (B, T, S)):
                raise SizeError(
                    f"attention's mask must be bool and of shape {(B, S)} or {(B, T, S)}, True where real; it is "
                    f"{mask.dtype} and {tuple(mask.shape)}"
                )
            check_mask("attention's mask", mask)
        weights_BTS = self.weigh(queries_BTH, self.prepare(keys_BSH), mask, probe=probe)
        return weights_BTS @ values_BSH, weights_BTS


def _perceptron(inputs: int, size: int, layers: int, activation: Activation | None) -> nn.Sequential:
    """``layers`` learned layers. Without an activation, no bias: in a dot product a key's shifts all alike."""
    made: list[nn.Module] = []
    for n in range(layers):
        linear = nn.Linear(inputs if n == 0 else size, size, bias=activation is not None)
        nn.init.xavier_uniform_(linear.weight)
        made.append(linear)
        if activation is not None:
            nn.init.zeros_(linear.bias)
            made.append(ACTIVATIONS[activation]())
    return nn.Sequential(*made)
