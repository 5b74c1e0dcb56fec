"""What the contract tests share: every combination with weights drawn at random, and ways to run it."""

import torch
from torch.testing import assert_close

from seqloom import Batch
from seqloom.batch import shift
from seqloom.nn.memory import DecoderOutput, DecoderState
from tests.contract.parts_tables import FAMILIES, V, label

LENGTHS = ((4, 3), (2, 5), (5, 1))
"""Of source and target (without END) of every sentence."""


def randomised(model, seed: int):
    """Every parameter drawn anew, also those that start as zeros: a zero hides mistakes."""
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
    return Batch.of(rows_of(generator, targets), rows_of(generator, sources) if hasattr(model, "encoder") else None)


class Combination:
    """One row of a family's covering."""

    def __init__(self, family: str, number: int) -> None:
        self.family = FAMILIES[family]
        self.row = self.family.rows()[number]
        self.id = f"{family}-{label(self.row)}"

    def build(self, seed: int = 0):
        """A fresh model in float64, as in use."""
        return randomised(self.family.build(self.row).double().eval(), seed)

    @property
    def attends(self) -> bool:
        return self.row.get("score", "multihead") != "-"


COMBINATIONS = [Combination(family, n) for family in FAMILIES for n in range(len(FAMILIES[family].rows()))]


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


def inert(model) -> dict[str, str]:
    """What the modules of a model name as getting no gradient: full prefixes, with the reasons."""
    return {
        f"{path}.{prefix}" if path else prefix: reason
        for path, module in model.named_modules()
        if hasattr(module, "inert")
        for prefix, reason in module.inert().items()
    }


def even_where_nothing(name: str, weights: torch.Tensor) -> torch.Tensor:
    """A probe that makes a look-up which found nothing see everything; queries drawn at random equal no key."""
    if not name.endswith("attention") or weights.any():
        return weights
    return torch.full_like(weights, 0.5)


def gradients(model, batches, **loss_options) -> dict[str, torch.Tensor]:
    """By name, the sum of the gradients' sizes over the batches."""
    found = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for batch in batches:
        total = model.loss(batch, **loss_options).total
        given = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
        for sizes, gradient in zip(found.values(), given, strict=True):
            if gradient is not None:
                sizes += gradient.abs()
    return found
