"""Shared by the contract tests: every combination of parts with random weights, and functions to run it."""

from functools import cache

import torch
from torch.testing import assert_close

from seqloom import Batch
from seqloom.batch import shift
from seqloom.nn.memory import DecoderOutput, DecoderState
from seqloom.registry import get_class
from tests.contract.parts_tables import FAMILIES, V, label

LENGTHS = ((4, 3), (2, 5), (5, 1))
"""The lengths of source and target (without EOS) of every sentence."""


SMALL = {
    "luong": {"encoder.layers": 2, "decoder.layers": 2},
    "transformer": {f"{part}.{option}": 2 for part in ("encoder", "decoder") for option in ("layers", "heads")},
    "attention-lm": {},
}
"""Overrides that make presets small enough for tests."""


def randomized(model, seed: int):
    """Set all parameters to random values, also those that are initialized with zeros, which would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) * 1.6 - 0.8)
    return model


def rows_of(generator: torch.Generator, lengths) -> list[list[int]]:
    return [torch.randint(3, V, (n,), generator=generator).tolist() for n in lengths]


def make_batch(model, seed: int = 0, lengths=LENGTHS) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    sources, targets = zip(*lengths, strict=True)
    return Batch.from_lists(
        rows_of(generator, targets), rows_of(generator, sources) if hasattr(model, "encoder") else None
    )


class Combination:
    """One row of a family's covering."""

    def __init__(self, family: str, number: int) -> None:
        self.family = FAMILIES[family]
        self.row = self.family.rows()[number]
        self.id = f"{family}-{label(self.row)}"

    def build(self, seed: int = 0):
        """A new model in float64 and evaluation mode."""
        return randomized(self.family.build(self.row).double().eval(), seed)

    @property
    def attends(self) -> bool:
        return self.row.get("score", "multihead") != "-"

    @property
    def complete(self) -> bool:
        """Whether its attention weights, if any, sum to 1."""
        normalizer = self.row.get("normalizer", "-")
        return normalizer == "-" or get_class("normalizer", normalizer).sums_to_one


@cache
def every_combination() -> list[Combination]:
    """All combinations of the parts that are registered by now, which includes parts from outside the package."""
    return [Combination(family, n) for family in FAMILIES for n in range(len(FAMILIES[family].rows()))]


def same(actual, expected, **tolerance) -> None:
    assert_close(actual, expected, rtol=1e-9, atol=1e-11, **tolerance)


def teacher_forced(model, batch: Batch, **options):
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    return model(inputs, memory, attention=True, **options), inputs, memory


def stepped(model, inputs, memory, state: DecoderState | None = None) -> list[DecoderOutput]:
    steps: list[DecoderOutput] = []
    state = model.initial_state(memory) if state is None else state
    for last in inputs.unbind(1):
        steps.append(model.step(last, state, memory))
        state = steps[-1].state
    return steps


def parameters_without_grad(model) -> dict[str, str]:
    """The parameters that a model's modules list as getting no gradient: full prefixes, with the reasons."""
    return {
        f"{path}.{prefix}" if path else prefix: reason
        for path, module in model.named_modules()
        if hasattr(module, "parameters_without_grad")
        for prefix, reason in module.parameters_without_grad().items()
    }


def uniform_if_no_match(name: str, weights: torch.Tensor) -> torch.Tensor:
    """A probe that makes attention without a match uniform: random queries never equal a key."""
    if "attention" not in name or weights.any():
        return weights
    return torch.full_like(weights, 0.5)


def gradients(model, batches, **loss_options) -> dict[str, torch.Tensor]:
    """The absolute gradients, summed over the batches, by parameter name."""
    sums = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for batch in batches:
        total = model.loss(batch, **loss_options).total
        given = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
        for sum_, gradient in zip(sums.values(), given, strict=True):
            if gradient is not None:
                sum_ += gradient.abs()
    return sums
