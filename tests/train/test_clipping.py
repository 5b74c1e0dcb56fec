"""Clipping, against PyTorch's own."""

import copy

import pytest
import torch
from torch import nn

from seqloom.train.clipping import clip


@pytest.mark.parametrize("longest", [1e-3, 0.5, 1e6, torch.inf])
def test_it_is_pytorchs(longest):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    ours[0](torch.randn(5, 3)).square().sum().backward()  # the second layer has no gradient
    theirs = copy.deepcopy(ours)
    for own, other in zip(ours[0].parameters(), theirs[0].parameters(), strict=True):
        other.grad = own.grad.clone()
    before = nn.utils.get_total_norm([p.grad for p in ours[0].parameters()])
    assert clip(ours.parameters(), longest) == before
    nn.utils.clip_grad_norm_(theirs.parameters(), longest)
    for own, other in zip(ours[0].parameters(), theirs[0].parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad)


def test_a_gradient_that_is_no_number_is_seen():
    layer = nn.Linear(2, 2)
    layer.weight.grad = torch.full((2, 2), torch.nan)
    assert clip(layer.parameters(), 1.0).isnan()
