"""Ensembles: several models that predict as one."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from seqloom.batch import Batch, Padded
from seqloom.decode.protocol import StepModel
from seqloom.errors import ConfigError, ShapeError
from seqloom.nn.memory import DecoderState, NextStep
from seqloom.nn.probe import Probe, no_probe, scoped

EnsembleMode = Literal["probs", "log_probs"]
Batches = Batch | Sequence[Batch]
"""One batch for all models, or one per model if their source tokenizers differ."""


@dataclass(frozen=True)
class EnsembleMemory:
    """The memories of all models.

    shared_positions: whether the attention of all models is over the same positions, of one source or of the past.
    """

    members: tuple[Any, ...]
    shared_positions: bool

    @property
    def mask(self) -> Tensor:
        """The mask of the first model, for attention that all share."""
        mask: Tensor = self.members[0].mask
        return mask

    def select(self, rows: Tensor) -> "EnsembleMemory":
        """The memories of the given sentences."""
        return EnsembleMemory(tuple(memory.select(rows) for memory in self.members), self.shared_positions)


class Ensemble:
    """An ensemble of models with the same target vocabulary, as one model for search and ``score``.

        probs:      p(v) = 1/M Σ_m p_m(v)
        log_probs:  p(v) ∝ exp(1/M Σ_m log p_m(v))

    The architectures may differ. Attention weights are averaged if all models attend to the same positions; otherwise
    there are none. Lengths relative to the source use the source of the first model.

    models: at least one model.
    mode: average the probabilities (``probs``) or the log-probabilities (``log_probs``).
    """

    def __init__(self, models: Sequence[StepModel[Batch]], *, mode: EnsembleMode = "probs") -> None:
        if not models:
            raise ConfigError("an ensemble needs at least one model: models is empty")
        self.models = list(models)
        self.mode = mode

    @property
    def training(self) -> bool:
        """Whether any of the models is in training mode."""
        return any(model.training for model in self.models)

    @property
    def max_length(self) -> int | None:
        """Maximum number of target tokens that all models support."""
        return min((model.max_length for model in self.models if model.max_length is not None), default=None)

    @property
    def attends_to(self) -> Literal["source", "past"] | None:
        """What the attention weights of all models refer to; None if they differ."""
        return self.models[0].attends_to if len({model.attends_to for model in self.models}) == 1 else None

    def encode(self, batch: Batches, *, probe: Probe = no_probe) -> EnsembleMemory:
        """The memories of all models."""
        batches = [batch] * len(self.models) if isinstance(batch, Batch) else list(batch)
        if len(batches) != len(self.models):
            raise ShapeError(
                f"{len(batches)} batches for {len(self.models)} models: give one per model, or one for all"
            )
        if len({one.rows for one in batches}) > 1:
            raise ShapeError(
                f"the models' batches have {[one.rows for one in batches]} sentences: give every model the same "
                "sentences"
            )
        members = tuple(
            model.encode(one, probe=scoped(probe, f"{m}/"))
            for m, (model, one) in enumerate(zip(self.models, batches, strict=True))
        )
        return EnsembleMemory(members, isinstance(batch, Batch) and self.attends_to is not None)

    def initial_state(self, memory: EnsembleMemory) -> DecoderState:
        """The initial states of all models, in one."""
        states = [model.initial_state(member) for model, member in self._each(memory)]
        return DecoderState({f"{m}/{name}": t for m, state in enumerate(states) for name, t in state.items()})

    def next_log_probs(
        self, prev_token: Tensor, state: DecoderState, memory: EnsembleMemory, *, probe: Probe = no_probe
    ) -> NextStep:
        """Run one step of every model in turn, and keep only the sum of their log-probabilities."""
        sum_RV: Tensor | None = None
        attention: list[Tensor | None] = []
        new_state = DecoderState()
        for m, (model, member) in enumerate(self._each(memory)):
            scope = f"{m}/"
            own = DecoderState({n.removeprefix(scope): t for n, t in state.items() if n.startswith(scope)})
            step = model.next_log_probs(prev_token, own, member, probe=scoped(probe, scope))
            sum_RV = self._add(sum_RV, step.log_probs)
            attention.append(step.attention)
            new_state.update({f"{scope}{name}": tensor for name, tensor in step.state.items()})
        assert sum_RV is not None
        return NextStep(self._mean(sum_RV), _mean_attention(attention, memory.shared_positions), new_state)

    def log_probs(self, target: Padded, memory: EnsembleMemory) -> Iterator[Tensor]:
        """Log-probabilities of all tokens at every step of a given target, a few steps at a time."""
        members = [model.log_probs(target, member) for model, member in self._each(memory)]
        for chunks in zip(*members, strict=True):
            sum_BTV: Tensor | None = None
            for chunk in chunks:
                sum_BTV = self._add(sum_BTV, chunk)
            assert sum_BTV is not None
            yield self._mean(sum_BTV)

    def _each(self, memory: EnsembleMemory) -> Iterator[tuple[StepModel[Batch], Any]]:
        """Every model with its memory."""
        return zip(self.models, memory.members, strict=True)

    def _add(self, sum_XV: Tensor | None, log_probs_XV: Tensor) -> Tensor:
        if sum_XV is None:
            return log_probs_XV
        sizes = sum_XV.shape[-1], log_probs_XV.shape[-1]
        if len(set(sizes)) > 1:
            raise ShapeError(
                f"the models' target vocabularies have {sorted(sizes)} tokens: the models of an ensemble must share "
                "one"
            )
        return sum_XV.logaddexp(log_probs_XV) if self.mode == "probs" else sum_XV + log_probs_XV

    def _mean(self, sum_XV: Tensor) -> Tensor:
        if self.mode == "probs":
            return sum_XV - math.log(len(self.models))
        return torch.log_softmax(sum_XV / len(self.models), -1)


def _mean_attention(attention: Sequence[Tensor | None], shared_positions: bool) -> Tensor | None:
    present = [one for one in attention if one is not None]
    if not shared_positions or len(present) < len(attention) or len({one.shape for one in present}) > 1:
        return None
    return torch.stack(present).mean(0)
