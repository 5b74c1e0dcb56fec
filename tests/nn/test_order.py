"""Reordering of steps: non-padding steps first, and back."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.nn.order import Order, reverse
from tests.nn.helpers import assert_equal, gradients, masks, rand


@given(mask=masks(min_steps=0), backward=st.booleans())
@settings(max_examples=50, deadline=None)
def test_non_padding_steps_come_first_and_undo_restores_them(mask, backward):
    x = torch.arange(float(mask.numel())).view(*mask.shape, 1)
    order = Order.of(mask, backward)
    moved = order.apply(x)
    assert_equal(order.undo(moved), x, 0)
    assert_equal(order.apply(order.undo(x)), x, 0)
    for row, row_mask in enumerate(mask):
        expected = x[row, row_mask].flip(0) if backward else x[row, row_mask]
        assert_equal(moved[row, : len(expected)], expected, 0)
        assert order.mask_BS[row].tolist() == [t < len(expected) for t in range(len(row_mask))]
        assert sorted(moved[row].flatten().tolist()) == x[row].flatten().tolist()


@given(mask=masks(min_steps=0))
@settings(max_examples=50, deadline=None)
def test_reverse_reverses_non_padding_steps(mask):
    x = torch.arange(float(mask.numel())).view(*mask.shape, 1)
    reversed_x = reverse(x, mask)
    for row, row_mask in enumerate(mask):
        assert_equal(reversed_x[row, row_mask], x[row, row_mask].flip(0), 0)
        assert_equal(reversed_x[row, ~row_mask], x[row, ~row_mask], 0)
    assert_equal(reverse(reversed_x, mask), x, 0)


@given(mask=masks(rows=2, steps=4, min_steps=0), backward=st.booleans())
@settings(max_examples=10, deadline=None)
def test_gradients_of_reordering(mask, backward):
    torch.manual_seed(1)
    x, order = rand(2, 4, 2), Order.of(mask, backward)
    assert torch.autograd.gradcheck(order.apply, (x,))
    assert torch.autograd.gradcheck(order.undo, (x,))
    assert torch.autograd.gradgradcheck(order.apply, (x,))


def test_reverse_of_noncontiguous_tensor():
    torch.manual_seed(2)
    mask = torch.tensor([[True, False, True], [False, True, True]])
    x = rand(2, 4, 3)
    assert_equal(reverse(x.mT, mask), reverse(x.mT.contiguous(), mask), 0)
    assert_equal(gradients(reverse(x.mT, mask), [x]), gradients(reverse(x.mT.contiguous(), mask), [x]))
