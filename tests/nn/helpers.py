"""Helpers for tests of ``nn``: random tensors, gradients, comparisons, and probes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from seqloom.registry import build
from tests.variants import every

CELLS = every("cell")
"""Specs of all variants of every registered cell."""


def rand(*shape: int, dtype: torch.dtype = torch.float64, grad: bool = True) -> Tensor:
    return torch.randn(shape, dtype=dtype).requires_grad_(grad)


def randomize_parameters(module: nn.Module, dtype: torch.dtype = torch.float64, std: float = 0.5) -> Any:
    """The module with all parameters random, including biases, so that no zero hides an error."""
    with torch.no_grad():
        for parameter in module.to(dtype).parameters():
            parameter.normal_(std=std)
    return module


def make_cell(spec: Any, inputs: int | Sequence[int], size: int) -> Any:
    return randomize_parameters(build("cell", spec, inputs, size))


def make_state(cell: Any, rows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    return tuple(rand(rows, cell.size, dtype=dtype) for _ in cell.state_names)


def project_inputs(cell: Any, inputs: Iterable[Tensor]) -> Tensor:
    """The projected input z of one step, from all inputs."""
    return sum(cell.project(x, n) for n, x in enumerate(inputs))


def make_inputs(cell: Any, rows: int) -> tuple[Tensor, ...]:
    return tuple(rand(rows, n) for n in cell.input_sizes)


def step_with_forced_values(
    spec: Any, size: int = 4, **force: float
) -> tuple[Any, tuple[Tensor, ...], Any, dict[str, Tensor]]:
    """One step of a cell with some activations forced: the cell, states before and after, and all activations."""
    torch.manual_seed(6)
    cell = make_cell(spec, 3, size)
    state, probe = make_state(cell, 2), RecordingProbe(**force)
    _, new = cell(cell.project(make_inputs(cell, 2)[0]), state, probe)
    return cell, state, new, probe.recorded


def check_equations(spec: Any, equations: Callable[..., tuple[np.ndarray, ...]], size: int = 4) -> None:
    """Compare a cell with ``equations(cell, x, *state)``, one step of one row in numpy; inputs are concatenated."""
    torch.manual_seed(1)
    for inputs in (size, 3, (3, 2), (size, size)):
        cell = make_cell(spec, inputs, size)
        state = make_state(cell, 3)
        expected = [tuple(to_numpy(part[row]) for part in state) for row in range(3)]
        for _ in range(5):
            xs = make_inputs(cell, 3)
            h, state = cell(project_inputs(cell, xs), state)
            for row in range(3):
                x = np.concatenate([to_numpy(x[row]) for x in xs])
                expected[row] = equations(cell, x, *expected[row])
                for actual, e in zip(state, expected[row], strict=True):
                    np.testing.assert_allclose(to_numpy(actual[row]), e, rtol=0, atol=1e-10)
            assert h is state[0]


def input_matrix(cell: Any) -> np.ndarray:
    """W, which multiplies the concatenated inputs."""
    return np.concatenate([to_numpy(w) for w in cell.inputs], 1)


def split_blocks(cell: Any, rows: np.ndarray) -> dict[str, np.ndarray]:
    """A matrix or bias split into the blocks of a cell, by name."""
    return dict(zip(cell.blocks, np.split(rows, len(cell.blocks)), strict=True))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def flatten_tensors(results: Any) -> list[Tensor]:
    """All tensors in nested tuples."""
    if isinstance(results, Tensor):
        return [results]
    return [tensor for result in results for tensor in flatten_tensors(result)]


def weighted_sum(results: Any, seed: int = 0) -> Tensor:
    """A random weighted sum of all entries of the results."""
    generator = torch.Generator().manual_seed(seed)
    return sum(
        (torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t) * t).sum()
        for t in flatten_tensors(results)
    )


def gradients(results: Any, leaves: Iterable[Tensor]) -> list[Tensor]:
    """Gradients of the ``weighted_sum`` of the results; zeros for unused leaves."""
    leaves = list(leaves)
    found = leaves and torch.autograd.grad(weighted_sum(results), leaves, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found, strict=True)]


def assert_equal(actual: Any, expected: Any, tolerance: float = 1e-10) -> None:
    for a, e in zip(flatten_tensors(actual), flatten_tensors(expected), strict=True):
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance)


def assert_equal_with_gradients(
    actual: Any, expected: Any, leaves: Iterable[Tensor], tolerance: float = 1e-10
) -> None:
    """Compare values, and gradients with respect to all leaves."""
    leaves = list(leaves)
    assert_equal(actual, expected, tolerance)
    assert_equal(gradients(actual, leaves), gradients(expected, leaves), tolerance)


def gradcheck(function: Callable[..., Any], *inputs: Tensor, module: nn.Module) -> bool:
    """Compare autograd with finite differences, for the inputs and all parameters of the module."""
    n = len(inputs)
    leaves = (*inputs, *module.parameters())
    return torch.autograd.gradcheck(lambda *all_: function(*all_[:n]), leaves, fast_mode=True)


def identity_probe(name: str, tensor: Tensor) -> Tensor:
    """A probe that changes nothing; with it, a recurrent network runs as a loop instead of a fused kernel."""
    return tensor


class RecordingProbe:
    """A probe that records all activations, and replaces those named in ``force``."""

    def __init__(self, **force: float | Tensor) -> None:
        self.recorded: dict[str, Tensor] = {}
        self.force = force

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        activation = name.rsplit(".", 1)[-1].split("[")[0]
        if activation in self.force:
            tensor = torch.ones_like(tensor) * self.force[activation]
        assert name not in self.recorded, f"{name} is recorded twice"
        self.recorded[name] = tensor
        return tensor


def to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def masks(rows: int = 3, steps: int = 5, min_steps: int = 1) -> st.SearchStrategy[Tensor]:
    """Masks with padding anywhere, and at least ``min_steps`` real steps in every row."""
    row = st.lists(st.booleans(), min_size=steps, max_size=steps).filter(lambda r: sum(r) >= min_steps)
    return st.lists(row, min_size=rows, max_size=rows).map(torch.tensor)
