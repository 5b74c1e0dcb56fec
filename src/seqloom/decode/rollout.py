"""Rollout: autoregressive generation for models whose output is not tokens, with each value fed back as input."""

import math
from typing import Any

import torch
from torch import Tensor

from seqloom.batch import Batch
from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.lengths import LengthLimits, TrainingLengths
from seqloom.decode.protocol import require_eval_mode
from seqloom.nn.outputs import Categorical, Output
from seqloom.nn.probe import Probe, at_step, no_probe


def rolls_out(model: Any) -> bool:
    """Whether a model needs a rollout, since it has no token log-probabilities to search."""
    output = getattr(model, "output", None)
    return isinstance(output, Output) and not isinstance(output, Categorical)


def rollout(
    model: Any,
    batch: Batch,
    *,
    lengths: LengthLimits,
    training_lengths: TrainingLengths | None = None,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    probe: Probe = no_probe,
) -> list[list[Hypothesis]]:
    """The model's output for every example of the batch; each step gets the previous value as input.

        y_0 = start,  y_t ~ p(y | y_0 … y_{t−1}, source)

    A row ends when the output module signals an end, or at its maximum length. If the output module has no end
    signal, a row has as many steps as the longest input joined to the target, or the maximum if there is none.

    lengths, training_lengths: as in a search.
    temperature: temperature of sampling; 0: the mode of every step's distribution.
    generator: the random number generator.
    probe: called with the model's activations; their names end with the number of the step.
    """
    require_eval_mode(model)
    with torch.inference_mode():
        memory = model.encode(batch, probe=probe)
        state, value = model.initial_state(memory), model.output.start(memory)
        min_length_B, max_length_B = lengths.bounds(
            batch.source,
            batch.rows,
            memory.mask.device,
            model_max_length=model.max_length,
            training_lengths=training_lengths,
        )
        has_no_end = model.output.ended(value) is None
        if has_no_end:
            max_length_B = _input_steps(model, batch, lengths, max_length_B)
        finished_B = torch.full_like(max_length_B, has_no_end, dtype=torch.bool)
        values: list[Tensor] = []
        while len(values) < int(max_length_B.max()):
            output = model.step(value, state, memory, probe=at_step(probe, len(values)))
            value = model.output.sample(output, memory, temperature=temperature, generator=generator)
            state = output.state
            values.append(value)
            ended_B = model.output.ended(value)
            if ended_B is not None:
                t = len(values)
                now_B = ended_B & (min_length_B <= t) & (t <= max_length_B)
                max_length_B, finished_B = max_length_B.masked_fill(now_B, t), finished_B | now_B
    rows = zip(torch.stack(values, 1), max_length_B.tolist(), finished_B.tolist(), strict=True)
    return [[_hypothesis(row[:length].tolist(), finished)] for row, length, finished in rows]


def _hypothesis(values: list[Any], finished: bool) -> Hypothesis:
    return Hypothesis(values, math.nan, math.nan, "none: rollout", [], None, finished, not finished)


def _input_steps(model: Any, batch: Batch, lengths: LengthLimits, max_length_B: Tensor) -> Tensor:
    """Lengths of rows without an end signal: the longest input joined to the target, if it is a sequence."""
    joined = [batch[name].lengths for name, joins in model.inputs.joins.items() if joins == "target"]
    steps_B = torch.stack(joined).amax(0) if joined else torch.zeros_like(max_length_B)
    has_maximum = lengths.max_length is not None or lengths.max_length_ratio is not None
    return torch.where(steps_B > 1, steps_B.minimum(max_length_B) if has_maximum else steps_B, max_length_B)
