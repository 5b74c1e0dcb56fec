"""``Loop`` gives the same values and gradients as plain autograd, also for parts of a loop."""

import pytest
import torch

from seqloom.nn.add import Loop, add
from seqloom.nn.recurrent import project
from seqloom.registry import build, parts

B, T, X, Z = 3, 4, 5, 6


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def looped_linear(z, weight, first):
    """x_{t+1} depends on a_t, so the steps can't run in parallel."""
    loop, x, steps = Loop(T), first, []
    for t in range(T):
        steps.append(loop.add(weight, x, z[:, t]))
        x = torch.tanh(steps[-1][:, :X])
    return torch.stack(steps, 1)


def plain_linear(z, weight, first):
    x, steps = first, []
    for t in range(T):
        steps.append(z[:, t] + x @ weight.t())
        x = torch.tanh(steps[-1][:, :X])
    return torch.stack(steps, 1)


def looped_context(weights, values, first):
    loop, w, steps = Loop(T), first, []
    for t in range(T):
        steps.append(loop.add(values.mT, torch.softmax(w[:, None], -1) + weights[:, t, None])[:, 0])
        w = steps[-1][:, :X]
    return torch.stack(steps, 1)


def plain_context(weights, values, first):
    w, steps = first, []
    for t in range(T):
        steps.append(((torch.softmax(w[:, None], -1) + weights[:, t, None]) @ values)[:, 0])
        w = steps[-1][:, :X]
    return torch.stack(steps, 1)


CASES = {
    "linear": (looped_linear, plain_linear, lambda: (rand(B, T, Z), rand(Z, X), rand(B, X))),
    "context": (looped_context, plain_context, lambda: (rand(B, T, X), rand(B, X, Z), rand(B, X))),
}


@pytest.mark.parametrize("name", CASES)
def test_loop_has_values_and_gradients_of_plain_autograd(name):
    torch.manual_seed(0)
    looped, plain, make = CASES[name]
    inputs = make()
    torch.testing.assert_close(looped(*inputs), plain(*inputs))
    grad = torch.randn(B, T, Z, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(looped(*inputs), inputs, grad), torch.autograd.grad(plain(*inputs), inputs, grad)
    )
    assert torch.autograd.gradcheck(looped, inputs)


@pytest.mark.parametrize("name", CASES)
def test_repeated_partial_backward_passes(name):
    """A backward pass through some steps, or to some inputs, does not affect the next one."""
    torch.manual_seed(1)
    looped, plain, make = CASES[name]
    inputs = make()
    ours, reference = looped(*inputs), plain(*inputs)
    torch.autograd.grad(ours[:, 3].sum(), inputs[2], retain_graph=True)  # not to W
    for step in (1, 3, 0):
        expected = torch.autograd.grad(reference[:, step].sum(), inputs[1], retain_graph=True)
        torch.testing.assert_close(torch.autograd.grad(ours[:, step].sum(), inputs[1], retain_graph=True), expected)


@pytest.mark.parametrize("name", parts("cell"))
@pytest.mark.parametrize("sizes", [(4,), (4, 3)], ids=["one input", "two inputs"])
def test_cells_in_a_loop_match_plain_autograd(name, sizes):
    """With all inputs projected step by step, for every cell."""
    torch.manual_seed(2)
    cell = build("cell", name, sizes, 4).double()
    inputs = [rand(B, T, size) for size in sizes]
    start = tuple(rand(B, 4) for _ in cell.state_names)

    def looped():
        loop, state = Loop(T), start
        for t in range(T):
            h, state = cell(project(cell, [x[:, t] for x in inputs], loop.add), state, add=loop.add)
        return h

    def plain():
        state = start
        for t in range(T):
            z = sum(cell.project(x[:, t], n) for n, x in enumerate(inputs))
            h, state = cell(z, state)
        return h

    torch.testing.assert_close(looped(), plain())
    leaves = [*inputs, *start, *cell.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(looped().sum(), leaves, allow_unused=True),
        torch.autograd.grad(plain().sum(), leaves, allow_unused=True),
    )


def test_views_of_one_parameter_and_more_uses_than_steps():
    """Two halves of one parameter, each used twice per step, in a loop with more steps than announced."""
    torch.manual_seed(3)
    weight, first = rand(2 * X, X), rand(B, X)

    def run(add):
        x = first
        for _ in range(T):
            upper, lower = weight.chunk(2)
            x = torch.tanh(add(upper, add(lower, x, x), add(lower, add(upper, x))))
        return x

    ours, expected = run(Loop(T - 1).add), run(add)
    torch.testing.assert_close(ours, expected)
    grad = torch.randn(B, X, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(ours, (weight, first), grad), torch.autograd.grad(expected, (weight, first), grad)
    )


@pytest.mark.parametrize("shape", [(B, X), (B, T, X)], ids=["rows", "rows and steps"])
def test_add_matches_the_formula(shape):
    W, x, b = rand(Z, X), rand(*shape), rand(Z)
    onto = rand(*shape[:-1], Z)
    product = torch.einsum("zx,...x->...z", W, x)
    torch.testing.assert_close(add(W, x), product)
    torch.testing.assert_close(add(W, x, b), product + b)
    torch.testing.assert_close(add(W, x, onto), product + onto)
