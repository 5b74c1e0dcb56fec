"""Attention as a layer: keys, queries, a score, a normaliser, a context."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.batch import check_mask
from seqloom.errors import OptionError, SizeError
from seqloom.nn.attention.base import Carrying, Normaliser, Score
from seqloom.nn.probe import Probe, at_step, silent
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

    @property
    def carrying(self) -> dict[str, Carrying]:
        """Score and normaliser, as far as they need their own past: then steps can't run in parallel."""
        parts: dict[str, Carrying] = {"score": self.score, "normaliser": self.normaliser}
        return {name: part for name, part in parts.items() if part.carries}

    def initial(self, prepared_BSD: Tensor) -> dict[str, Tensor]:
        """The pasts before the first step, each B S."""
        return {name: part.initial(prepared_BSD) for name, part in self.carrying.items()}

    def update(self, past: Mapping[str, Tensor], weights_BTS: Tensor) -> dict[str, Tensor]:
        """The pasts after a step that gave these weights, each B T S: a past per query."""
        return {name: part.update(past[name], weights_BTS) for name, part in self.carrying.items()}

    def weigh(
        self,
        query_BTH: Tensor,
        prepared_BSD: Tensor,
        mask: Tensor | None = None,
        *,
        position_BT: Tensor | None = None,
        past: Mapping[str, Tensor] | None = None,
        probe: Probe = silent,
    ) -> Tensor:
        """Weights B T S, with keys that ``prepare`` made.

        mask: B S or B T S, True where real.
        position_BT: of the queries in their targets, for a static score.
        past: what ``initial`` and ``update`` gave for each query, where attention carries one.
        """
        past = past or {}
        scores_BTS = self.score(self.query_layers(query_BTH), prepared_BSD, position_BT, past.get("score"))
        mask_BTS = mask if mask is None or mask.dim() == 3 else mask[:, None]
        carried = [past["normaliser"]] if "normaliser" in past else []
        return probe("attention", self.normaliser(scores_BTS, mask_BTS, *carried))

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
        prepared_BSD = self.prepare(keys_BSH)
        if self.carrying:
            weights_BTS = self._one_by_one(queries_BTH, prepared_BSD, mask, probe)
        else:
            weights_BTS = self.weigh(queries_BTH, prepared_BSD, mask, probe=probe)
        return weights_BTS @ values_BSH, weights_BTS

    def _one_by_one(self, queries_BTH: Tensor, prepared_BSD: Tensor, mask: Tensor | None, probe: Probe) -> Tensor:
        """The weights of one query after another, each with the past that the ones before left."""
        past = {name: start_BS[:, None] for name, start_BS in self.initial(prepared_BSD).items()}
        steps = []
        for t, query_B1H in enumerate(torch.split(queries_BTH, 1, 1)):
            seen = mask[:, t : t + 1] if mask is not None and mask.dim() == 3 else mask
            position_BT = torch.full(query_B1H.shape[:2], t, device=query_B1H.device)
            place = at_step(probe, t)
            steps.append(self.weigh(query_B1H, prepared_BSD, seen, position_BT=position_BT, past=past, probe=place))
            past = self.update(past, steps[-1])
        return torch.cat(steps, 1)


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
