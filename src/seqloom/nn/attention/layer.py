"""The attention layer: projections of keys and queries, a score function, a normalizer and the context vector."""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from seqloom.batch import check_mask
from seqloom.errors import ConfigError, ShapeError
from seqloom.nn.attention.base import Normalizer, ScoreFunction, StatefulPart
from seqloom.nn.probe import Probe, at_step, no_probe
from seqloom.registry import Spec, build, parse_spec

Activation = Literal["tanh", "sigmoid", "relu"]
ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "relu": nn.ReLU}


class Attention(nn.Module):
    """Attention with one head: compares each query with all keys and averages the values by the attention weights.

        k_s = key(h_s)        q_t = query(s_t)
        w_ts = normalizer_s(score(q_t, k_s))        attention weights
        context_t = Σ_s w_ts · value_s              context vector

    query_size, key_size: sizes of s_t and h_s, from which queries and keys are computed.

    score: attention score function, which compares a query with a key.
    normalizer: function from attention scores to attention weights.
    key_layers, query_layers: number of learned layers that compute keys (queries) from encoder (decoder) states; 0
        uses the states themselves.
    key_activation, query_activation: activation φ of each of these layers, φ(W x + b); null for a linear layer
        without bias, W x.
    hidden_size: output size of these layers; by default the query size.
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        score: Spec = "additive",
        normalizer: Spec = "softmax",
        key_layers: NonNegativeInt = 0,
        query_layers: NonNegativeInt = 0,
        key_activation: Activation | None = None,
        query_activation: Activation | None = None,
        hidden_size: PositiveInt | None = None,
    ) -> None:
        super().__init__()
        self.sizes = (query_size, key_size)
        if hidden_size is not None and not key_layers and not query_layers:
            raise ConfigError(
                "attention: hidden_size has no effect without key_layers or query_layers: set one, or remove it"
            )
        for side, layers, activation in (
            ("key", key_layers, key_activation),
            ("query", query_layers, query_activation),
        ):
            if activation is not None and not layers:
                raise ConfigError(
                    f"attention: {side}_activation={activation!r} has no effect without layers: set "
                    f"{side}_layers to at least 1"
                )
        hidden_size = hidden_size or query_size
        self.query_layers = _projection(query_size, hidden_size, query_layers, query_activation)
        self.key_layers = _projection(key_size, hidden_size, key_layers, key_activation)
        self.score: ScoreFunction = build(
            "score", score, hidden_size if query_layers else query_size, hidden_size if key_layers else key_size
        )
        self.normalizer: Normalizer = build("normalizer", normalizer)
        name, _ = parse_spec("score", score)
        if self.score.position_only and (key_layers or query_layers):
            raise ConfigError(
                f"attention: score {name!r} does not read keys or queries: remove key_layers and query_layers"
            )
        allowed = self.normalizer.compatible_scores
        if allowed is not None and name not in allowed:
            normalizer_name, _ = parse_spec("normalizer", normalizer)
            raise ConfigError(
                f"normalizer {normalizer_name!r} supports only score {' or '.join(map(repr, allowed))}, not {name!r}"
            )

    def parameters_without_grad(self) -> dict[str, str]:
        """Name prefixes of parameters that get no gradient, each with the reason."""
        if self.normalizer.differentiable:
            return {}
        reason = "this normalizer is not differentiable, so keys and queries get no gradient"
        return dict.fromkeys(("query_layers.", "key_layers.", "score."), reason)

    def project_keys(self, keys_BSH: Tensor) -> Tensor:
        """Everything that depends on the keys only; computed once for all queries."""
        return self.score.project_keys(self.key_layers(keys_BSH))

    @property
    def stateful_parts(self) -> dict[str, StatefulPart]:
        """Score function and normalizer, as far as they carry a state: if any does, steps can't run in parallel."""
        parts: dict[str, StatefulPart] = {"score": self.score, "normalizer": self.normalizer}
        return {name: part for name, part in parts.items() if part.stateful}

    def initial_state(self, projected_BSD: Tensor) -> dict[str, Tensor]:
        """The states of stateful parts before the first step, B S each."""
        return {name: part.initial_state(projected_BSD) for name, part in self.stateful_parts.items()}

    def update_state(self, state: Mapping[str, Tensor], weights_BTS: Tensor) -> dict[str, Tensor]:
        """The states of stateful parts after a step with these attention weights, B T S each: one state per query."""
        return {name: part.update_state(state[name], weights_BTS) for name, part in self.stateful_parts.items()}

    def compute_weights(
        self,
        query_BTH: Tensor,
        projected_BSD: Tensor,
        mask: Tensor | None = None,
        *,
        position_BT: Tensor | None = None,
        state: Mapping[str, Tensor] | None = None,
        probe: Probe = no_probe,
    ) -> Tensor:
        """Attention weights B T S, from the keys that ``project_keys`` returned.

        mask: B S or B T S, True for keys that may be attended to.
        position_BT: positions of the queries in their targets, for a position-only score function.
        state: states of stateful parts, one per query, from ``initial_state`` and ``update_state``.
        """
        state = state or {}
        scores_BTS = self.score(self.query_layers(query_BTH), projected_BSD, position_BT, state.get("score"))
        mask_BTS = mask if mask is None or mask.dim() == 3 else mask[:, None]
        normalizer_state = [state["normalizer"]] if "normalizer" in state else []
        return probe("attention", self.normalizer(scores_BTS, mask_BTS, *normalizer_state))

    def forward(
        self,
        values_BSH: Tensor,
        keys_BSH: Tensor,
        queries_BTH: Tensor,
        mask: Tensor | None = None,
        *,
        probe: Probe = no_probe,
    ) -> tuple[Tensor, Tensor]:
        """Use as a layer: values, keys and queries in; context vectors B T H and attention weights B T S out."""
        given = (queries_BTH.shape[-1], keys_BSH.shape[-1])
        if given != self.sizes:
            raise ShapeError(f"attention expects queries and keys of sizes {self.sizes}, but got sizes {given}")
        if values_BSH.shape[:2] != keys_BSH.shape[:2]:
            raise ShapeError(
                f"every value needs a key, but values have batch size and length {tuple(values_BSH.shape[:2])} and "
                f"keys {tuple(keys_BSH.shape[:2])}"
            )
        if len(queries_BTH) != len(keys_BSH):
            raise ShapeError(
                f"queries and keys must have the same batch size, but it is {len(queries_BTH)} and {len(keys_BSH)}"
            )
        if mask is not None:
            B, T, S = *queries_BTH.shape[:2], keys_BSH.shape[1]
            if mask.dtype != torch.bool or mask.shape not in ((B, S), (B, T, S)):
                raise ShapeError(
                    f"the attention mask must be bool, with shape {(B, S)} or {(B, T, S)}; it is {mask.dtype}, with "
                    f"shape {tuple(mask.shape)}"
                )
            check_mask("key sequence", mask)
        projected_BSD = self.project_keys(keys_BSH)
        if self.stateful_parts:
            weights_BTS = self._forward_sequential(queries_BTH, projected_BSD, mask, probe)
        else:
            weights_BTS = self.compute_weights(queries_BTH, projected_BSD, mask, probe=probe)
        return weights_BTS @ values_BSH, weights_BTS

    def _forward_sequential(
        self, queries_BTH: Tensor, projected_BSD: Tensor, mask: Tensor | None, probe: Probe
    ) -> Tensor:
        """Attention weights of one query after another, each with the state that the previous ones left."""
        state = {name: state_BS[:, None] for name, state_BS in self.initial_state(projected_BSD).items()}
        steps = []
        for t, query_B1H in enumerate(torch.split(queries_BTH, 1, 1)):
            step_mask = mask[:, t : t + 1] if mask is not None and mask.dim() == 3 else mask
            position_BT = torch.full(query_B1H.shape[:2], t, device=query_B1H.device)
            weights_B1S = self.compute_weights(
                query_B1H, projected_BSD, step_mask, position_BT=position_BT, state=state, probe=at_step(probe, t)
            )
            state = self.update_state(state, weights_B1S)
            steps.append(weights_B1S)
        return torch.cat(steps, 1)


def _projection(inputs: int, hidden_size: int, layers: int, activation: Activation | None) -> nn.Sequential:
    """``layers`` learned layers.

    A layer without activation has no bias: in a dot product, a key bias adds the same number to all scores of a
    query.
    """
    modules: list[nn.Module] = []
    for n in range(layers):
        linear = nn.Linear(inputs if n == 0 else hidden_size, hidden_size, bias=activation is not None)
        nn.init.xavier_uniform_(linear.weight)
        modules.append(linear)
        if activation is not None:
            nn.init.zeros_(linear.bias)
            modules.append(ACTIVATIONS[activation]())
    return nn.Sequential(*modules)
