"""How the numbers of a matrix lie in memory."""

import torch
from torch import nn


@torch.no_grad()
def for_few_rows(*modules: nn.Module) -> None:
    """Lay the matrices of modules out for use on a CPU, a sentence at a time: column by column.

    x Wᵀ with one row, or a few, is a sum of columns of W: so they are read one after another, as they lie. Nothing
    else changes, neither shapes nor results; products with many rows take as long as before.
    """
    for parameter in {id(p): p for module in modules for p in module.parameters()}.values():
        if parameter.dim() == 2 and parameter.device.type == "cpu":
            parameter.data = parameter.data.t().contiguous().t()
