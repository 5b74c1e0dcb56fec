"""A worker that does nothing but large matrix products: how fast this machine multiplies, for any limit."""

import torch
from harness.worker import Run, serve


def make(size: int) -> Run:
    """Products of two square float32 matrices."""
    a, b = torch.randn(2, size, size)
    product = torch.empty(size, size)
    return lambda _: torch.mm(a, b, out=product)


if __name__ == "__main__":
    serve(make)
