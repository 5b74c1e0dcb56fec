"""What the tests of ``nn`` share: random tensors, gradients, comparisons, and the probe that forces the loop."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from seqloom.registry import build, parts

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "lstm": [
        {"forget_bias": bias, "forget_gate": forget, "input_gate": inp, "output_gate": out}
        for bias, forget, inp, out in (
            (1.0, True, True, True),
            (0.0, True, True, True),
            (2.5, True, True, False),
            (1.0, True, False, True),
            (1.0, False, True, True),
            (1.0, True, False, False),
            (1.0, False, True, False),
            (1.0, False, False, True),
            (1.0, False, False, False),
        )
    ],
    "elman": [{"activation": "tanh"}, {"activation": "sigmoid"}],
    "gru": [{"reset": "before"}, {"reset": "after"}],
}
CELLS = [{"name": name, **options} for name in parts("cell") for options in VARIANTS.get(name, [{}])]
"""Every registered cell, with its options where they change the equations."""


def label(spec: Any) -> str | None:
    """A readable test id for a specification."""
    return "-".join(str(v) for v in spec.values()) if isinstance(spec, dict) else None


def rand(*shape: int, dtype: torch.dtype = torch.float64, grad: bool = True) -> Tensor:
    return torch.randn(shape, dtype=dtype).requires_grad_(grad)


def shaken(module: nn.Module, dtype: torch.dtype = torch.float64, std: float = 0.5) -> Any:
    """The module with all its parameters random, biases too, so that none can hide behind a zero."""
    with torch.no_grad():
        for parameter in module.to(dtype).parameters():
            parameter.normal_(std=std)
    return module


def make_cell(spec: Any, inputs: int | Sequence[int], size: int) -> Any:
    return shaken(build("cell", spec, inputs, size))


def make_state(cell: Any, rows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    return tuple(rand(rows, cell.size, dtype=dtype) for _ in cell.parts)


def flat(results: Any) -> list[Tensor]:
    """All tensors of nested tuples."""
    if isinstance(results, Tensor):
        return [results]
    return [tensor for result in results for tensor in flat(result)]


def mixed(results: Any, seed: int = 0) -> Tensor:
    """A scalar that weighs every number of the results differently."""
    generator = torch.Generator().manual_seed(seed)
    return sum(
        (torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t) * t).sum() for t in flat(results)
    )


def gradients(results: Any, leaves: Iterable[Tensor]) -> list[Tensor]:
    """The gradients of ``mixed`` results; zeros where a leaf had no part in them."""
    leaves = list(leaves)
    found = leaves and torch.autograd.grad(mixed(results), leaves, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found, strict=True)]


def assert_equal(actual: Any, expected: Any, tolerance: float = 1e-10) -> None:
    for a, e in zip(flat(actual), flat(expected), strict=True):
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance)


def assert_equal_with_gradients(
    actual: Any, expected: Any, leaves: Iterable[Tensor], tolerance: float = 1e-10
) -> None:
    """Two ways to compute the same from the same leaves: the values and every gradient."""
    leaves = list(leaves)
    assert_equal(actual, expected, tolerance)
    assert_equal(gradients(actual, leaves), gradients(expected, leaves), tolerance)


def gradcheck(function: Callable[..., Any], *inputs: Tensor, module: nn.Module) -> bool:
    """Finite differences against autograd, for the inputs and for every parameter of the module."""
    n = len(inputs)
    leaves = (*inputs, *module.parameters())
    return torch.autograd.gradcheck(lambda *all_: function(*all_[:n]), leaves, fast_mode=True)


def unchanged(name: str, tensor: Tensor) -> Tensor:
    """A probe that looks and changes nothing: with it, a recurrence runs as a loop."""
    return tensor


class Recorder:
    """A probe that keeps what it sees, and puts ``force[name]`` in the place of what is named there."""

    def __init__(self, **force: float | Tensor) -> None:
        self.seen: dict[str, Tensor] = {}
        self.force = force

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        last = name.rsplit(".", 1)[-1].split("[")[0]
        if last in self.force:
            tensor = torch.ones_like(tensor) * self.force[last]
        assert name not in self.seen, f"{name} is shown twice"
        self.seen[name] = tensor
        return tensor


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def masks(rows: int = 3, steps: int = 5, least: int = 1) -> st.SearchStrategy[Tensor]:
    """Masks with holes anywhere, and ``least`` real steps in every row."""
    row = st.lists(st.booleans(), min_size=steps, max_size=steps).filter(lambda r: sum(r) >= least)
    return st.lists(row, min_size=rows, max_size=rows).map(torch.tensor)
