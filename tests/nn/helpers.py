"""What the tests of ``nn`` share: random tensors, gradients, comparisons, and the probe that forces the loop."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from seqloom.registry import build
from tests.variants import every

CELLS = every("cell")
"""Every registered cell, with its options where they change the equations."""


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


def projected(cell: Any, inputs: Iterable[Tensor]) -> Tensor:
    """z of a step, from all inputs."""
    return sum(cell.project(x, block) for block, x in enumerate(inputs))


def inputs_of(cell: Any, rows: int) -> tuple[Tensor, ...]:
    return tuple(rand(rows, n) for n in cell.input_sizes)


def forced(spec: Any, size: int = 4, **force: float) -> tuple[Any, tuple[Tensor, ...], Any, dict[str, Tensor]]:
    """A cell's step with some gates forced: the cell, the state before, the state after, and all that was seen."""
    torch.manual_seed(6)
    cell = make_cell(spec, 3, size)
    state, probe = make_state(cell, 2), Recorder(**force)
    _, new = cell(cell.project(inputs_of(cell, 2)[0]), state, probe)
    return cell, state, new, probe.seen


def check_equations(spec: Any, equations: Callable[..., tuple[np.ndarray, ...]], size: int = 4) -> None:
    """A cell against ``equations(cell, x, *state)``, one step of one row in numpy; several inputs are one, joined."""
    torch.manual_seed(1)
    for inputs in (size, 3, (3, 2), (size, size)):
        cell = make_cell(spec, inputs, size)
        state = make_state(cell, 3)
        expected = [tuple(array(part[row]) for part in state) for row in range(3)]
        for _ in range(5):
            xs = inputs_of(cell, 3)
            h, state = cell(projected(cell, xs), state)
            for row in range(3):
                x = np.concatenate([array(x[row]) for x in xs])
                expected[row] = equations(cell, x, *expected[row])
                for part, wanted in zip(state, expected[row], strict=True):
                    np.testing.assert_allclose(array(part[row]), wanted, rtol=0, atol=1e-10)
            assert h is state[0]


def input_matrix(cell: Any) -> np.ndarray:
    """W, as it acts on all inputs joined."""
    return np.concatenate([array(w) for w in cell.inputs], 1)


def by_block(cell: Any, rows: np.ndarray) -> dict[str, np.ndarray]:
    """The rows of a matrix or a bias that belong to each of a cell's blocks, by name."""
    return dict(zip(cell.blocks, np.split(rows, len(cell.blocks)), strict=True))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


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
