"""Rollout: a model that writes values other than tokens goes on from its own values, step by step."""

import math
from typing import Any

import torch
from torch import Tensor

from seqloom.batch import Batch
from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.lengths import Lengths, Limits
from seqloom.decode.protocol import check_in_use
from seqloom.nn.outputs import Categorical, Output
from seqloom.nn.probe import Probe, at_step, silent


def rolls_out(model: Any) -> bool:
    """Whether a model's results are rolled out, as it has no log-probabilities of tokens to search."""
    output = getattr(model, "output", None)
    return isinstance(output, Output) and not isinstance(output, Categorical)


def rollout(
    model: Any,
    batch: Batch,
    *,
    lengths: Lengths,
    limits: Limits | None = None,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    probe: Probe = silent,
) -> list[list[Hypothesis]]:
    """What the model writes for every example of the batch, each step fed with the one before.

        y_0 = start,  y_t ~ p(y | y_0 … y_{t−1}, source)

    A row ends where the output says so, or at its maximum length. If only the length can end it, a row has as many
    steps as the longest input that goes along with the target, if there is one, and else the maximum.

    lengths, limits: as of a search.
    temperature: 0: the mode of every step's distribution.
    generator: of the random numbers.
    probe: sees the model's activations, their names with the number of the step.
    """
    check_in_use(model)
    with torch.inference_mode():
        memory = model.encode(batch, probe=probe)
        state, value = model.initial_state(memory), model.output.start(memory)
        least_B, most_B = lengths.bounds(
            batch.source, batch.rows, memory.mask.device, longest=model.max_length, limits=limits
        )
        only_length = model.output.ended(value) is None
        if only_length:
            most_B = _given_steps(model, batch, lengths, most_B)
        finished_B = torch.full_like(most_B, only_length, dtype=torch.bool)
        values: list[Tensor] = []
        while len(values) < int(most_B.max()):
            decoded = model.step(value, state, memory, probe=at_step(probe, len(values)))
            value = model.output.sample(decoded, memory, temperature=temperature, generator=generator)
            state = decoded.state
            values.append(value)
            ended_B = model.output.ended(value)
            if ended_B is not None:
                t = len(values)
                now_B = ended_B & (least_B <= t) & (t <= most_B)
                most_B, finished_B = most_B.masked_fill(now_B, t), finished_B | now_B
    rows = zip(torch.stack(values, 1), most_B.tolist(), finished_B.tolist(), strict=True)
    return [[_hypothesis(row[:length].tolist(), finished)] for row, length, finished in rows]


def _hypothesis(values: list[Any], finished: bool) -> Hypothesis:
    return Hypothesis(values, math.nan, math.nan, "none: it was rolled out", [], None, finished, not finished)


def _given_steps(model: Any, batch: Batch, lengths: Lengths, most_B: Tensor) -> Tensor:
    """How many steps rows have that nothing ends: as many as what goes along with them, if that is a sequence."""
    along = [batch[name].lengths for name, joins in model.inputs.joins.items() if joins == "target"]
    steps_B = torch.stack(along).amax(0) if along else torch.zeros_like(most_B)
    is_limited = lengths.max_length is not None or lengths.max_ratio is not None
    return torch.where(steps_B > 1, steps_B.minimum(most_B) if is_limited else steps_B, most_B)
