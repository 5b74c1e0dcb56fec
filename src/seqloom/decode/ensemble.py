"""Ensembles: several models as one."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from seqloom.batch import Batch
from seqloom.decode.protocol import Scorable, ScoredOutput, Searched
from seqloom.errors import OptionError, SizeError
from seqloom.nn.memory import Decoded, Memory, State, Step

Average = Literal["probabilities", "log_probabilities"]
Batches = Batch | Sequence[Batch]
"""One batch for all models, or one for each, where they read the same sources in tokens of their own."""


class Member(Scorable[Batch], Searched[Batch], Protocol):
    """What an ensemble asks of a model."""


class Ensemble:
    """Models of any architectures with the same target vocabulary, as one that search and ``score`` can work on.

        probabilities:      p(v) = 1/M Σ_m p_m(v)
        log_probabilities:  p(v) ∝ exp(1/M Σ_m log p_m(v))

    Its attention is the mean of theirs, if all have some and on the same steps; else it has none. Lengths relative to
    the source are those of the first model's.

    models: at least one.
    average: of what.
    """

    def __init__(self, models: Sequence[Member], *, average: Average = "probabilities") -> None:
        if not models:
            raise OptionError("an ensemble of no models: give at least one")
        self.models = list(models)
        self.average = average
        self.output = EnsembleOutput(self.models[0].output, any(m.output.needs_weights for m in self.models))

    @property
    def training(self) -> bool:
        """Whether any of the models is."""
        return any(model.training for model in self.models)

    def prepare(self, batch: Batches) -> "Memories":
        """The memories of all models."""
        batches = [batch] * len(self.models) if isinstance(batch, Batch) else list(batch)
        if len(batches) != len(self.models):
            raise SizeError(
                f"{len(batches)} batches for {len(self.models)} models: give one for each, or one for all"
            )
        members = [model.prepare(one) for model, one in zip(self.models, batches, strict=True)]
        if len({len(memory) for memory in members}) > 1:
            raise SizeError(f"batches of {[len(memory) for memory in members]} sentences: each needs the same ones")
        first = members[0]
        return Memories(
            first.values,
            first.mask,
            longest=min((one.longest for one in members if one.longest is not None), default=None),
            on_source=first.on_source,
            members=tuple(members),
            same_steps=isinstance(batch, Batch) and len({one.on_source for one in members}) == 1,
        )

    def start(self, memory: Memory) -> State:
        """The states of all models, in one."""
        return _together([model.start(one) for model, one in self._each(memory)])

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """A step of every model; its features are log-probabilities already, R V."""
        steps = [model.step(last, _of(state, m), one) for m, (model, one) in enumerate(self._each(memory))]
        weights_RS = _mean_weights([step.weights for step in steps], memory)
        return Step(self._mean(steps, memory), weights_RS, _together([step.state for step in steps]))

    def __call__(self, inputs: Tensor, memory: Memory, *, weights: bool) -> Decoded:
        """All steps of a known target; the features are log-probabilities already, B T V."""
        decoded = [model(inputs, one, weights=weights) for model, one in self._each(memory)]
        # The steps of a sentence are to the output what its beams are: adjacent rows with one memory.
        steps = [Step(f.flatten(0, 1), None if w is None else w.flatten(0, 1), State()) for f, w in decoded]
        log_probs_BTV = self._mean(steps, memory).view(*inputs.shape[:2], -1)
        return Decoded(log_probs_BTV, _mean_weights([w for _, w in decoded], memory))

    def _each(self, memory: Memory) -> Iterator[tuple[Member, Memory]]:
        """Every model with its own memory."""
        assert isinstance(memory, Memories)
        return zip(self.models, memory.members, strict=True)

    def _mean(self, steps: Sequence[Step], memory: Memory) -> Tensor:
        """The log-probabilities of all models together, R V; of two models' at a time, as they may be large."""
        sum_RV: Tensor | None = None
        for step, (model, one) in zip(steps, self._each(memory), strict=True):
            log_probs_RV = model.output.log_probs(step, one)
            if sum_RV is None:
                sum_RV = log_probs_RV
                continue
            sizes = sum_RV.shape[1], log_probs_RV.shape[1]
            if len(set(sizes)) > 1:
                raise SizeError(f"target vocabularies of {sorted(sizes)} tokens: an ensemble's models must share one")
            sum_RV = sum_RV.logaddexp(log_probs_RV) if self.average == "probabilities" else sum_RV + log_probs_RV
        assert sum_RV is not None
        if self.average == "probabilities":
            return sum_RV - math.log(len(self.models))
        return torch.log_softmax(sum_RV / len(self.models), -1)


class EnsembleOutput:
    """The output of an ensemble: the log-probabilities that its steps have made."""

    def __init__(self, first: ScoredOutput, needs_weights: bool) -> None:
        self.first = first
        self.needs_weights = needs_weights

    def start(self, memory: Memory) -> Tensor:
        """What is fed before anything is known: the same to all."""
        assert isinstance(memory, Memories)
        return self.first.start(memory.members[0])

    def shift(self, target_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """What is fed for a known target: the same to all."""
        return self.first.shift(target_BT, mask_BT)

    def log_probs(self, step: Step, memory: Memory) -> Tensor:
        """The log-probability of every next token."""
        return step.features


@dataclass(frozen=True)
class Memories(Memory):
    """The memories of several models; itself it shows the first one's source.

    same_steps: whether the attention of all is on the same steps: those of one source, or of their past.
    """

    members: tuple[Memory, ...] = ()
    same_steps: bool = True

    def select(self, sentences: Tensor) -> "Memories":
        members = tuple(memory.select(sentences) for memory in self.members)
        return replace(self, values=members[0].values, mask=members[0].mask, members=members)


def _together(states: Sequence[State]) -> State:
    return State({f"{m}/{name}": tensor for m, state in enumerate(states) for name, tensor in state.items()})


def _of(state: State, m: int) -> State:
    own = f"{m}/"
    return State({name.removeprefix(own): tensor for name, tensor in state.items() if name.startswith(own)})


def _mean_weights(weights: Sequence[Tensor | None], memory: Memory) -> Tensor | None:
    assert isinstance(memory, Memories)
    there = [one for one in weights if one is not None]
    if not memory.same_steps or len(there) < len(weights) or len({one.shape for one in there}) > 1:
        return None
    return torch.stack(there).mean(0)
