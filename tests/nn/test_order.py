"""The order of steps: real ones first, and back again."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.nn.order import Order, reverse
from tests.nn.helpers import assert_equal, gradients, masks, rand


@given(mask=masks(least=0), backward=st.booleans())
@settings(max_examples=50, deadline=None)
def test_real_steps_come_first_and_go_back(mask, backward):
    x = torch.arange(float(mask.numel())).view(*mask.shape, 1)
    order = Order.of(mask, backward)
    moved = order.apply(x)
    assert_equal(order.undo(moved), x, 0)
    assert_equal(order.apply(order.undo(x)), x, 0)
    for row, real in enumerate(mask):
        wanted = x[row, real].flip(0) if backward else x[row, real]
        assert_equal(moved[row, : len(wanted)], wanted, 0)
        assert order.real_BS[row].tolist() == [t < len(wanted) for t in range(len(real))]
        assert sorted(moved[row].flatten().tolist()) == x[row].flatten().tolist()


@given(mask=masks(least=0))
@settings(max_examples=50, deadline=None)
def test_reverse_turns_the_real_steps_among_themselves(mask):
    x = torch.arange(float(mask.numel())).view(*mask.shape, 1)
    turned = reverse(x, mask)
    for row, real in enumerate(mask):
        assert_equal(turned[row, real], x[row, real].flip(0), 0)
        assert_equal(turned[row, ~real], x[row, ~real], 0)
    assert_equal(reverse(turned, mask), x, 0)


@given(mask=masks(rows=2, steps=4, least=0), backward=st.booleans())
@settings(max_examples=10, deadline=None)
def test_gradients_go_the_way_back(mask, backward):
    torch.manual_seed(1)
    x, order = rand(2, 4, 2), Order.of(mask, backward)
    assert torch.autograd.gradcheck(order.apply, (x,))
    assert torch.autograd.gradcheck(order.undo, (x,))
    assert torch.autograd.gradgradcheck(order.apply, (x,))


def test_steps_need_not_be_contiguous():
    torch.manual_seed(2)
    mask = torch.tensor([[True, False, True], [False, True, True]])
    x = rand(2, 4, 3)
    assert_equal(reverse(x.mT, mask), reverse(x.mT.contiguous(), mask), 0)
    assert_equal(gradients(reverse(x.mT, mask), [x]), gradients(reverse(x.mT.contiguous(), mask), [x]))
