"""Gradient clipping, compared with PyTorch."""

import copy

import pytest
import torch
from torch import nn

from seqloom.train.clipping import clip_grad_norm


@pytest.mark.parametrize("max_norm", [1e-3, 0.5, 1e6, torch.inf])
def test_clipping_matches_pytorch(max_norm):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    ours[0](torch.randn(5, 3)).square().sum().backward()  # the second layer has no gradient
    theirs = copy.deepcopy(ours)
    for own, other in zip(ours[0].parameters(), theirs[0].parameters(), strict=True):
        other.grad = own.grad.clone()
    before = nn.utils.get_total_norm([p.grad for p in ours[0].parameters()])
    assert clip_grad_norm(ours.parameters(), max_norm) == before
    nn.utils.clip_grad_norm_(theirs.parameters(), max_norm)
    for own, other in zip(ours[0].parameters(), theirs[0].parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad)


def test_nan_gradient_gives_nan_norm():
    layer = nn.Linear(2, 2)
    layer.weight.grad = torch.full((2, 2), torch.nan)
    assert clip_grad_norm(layer.parameters(), 1.0).isnan()
