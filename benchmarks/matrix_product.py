"""Worker that measures the speed of large matrix multiplications on this machine."""

import torch
from harness.worker import Run, serve


def make(size: int) -> Run:
    """Multiply two square float32 matrices."""
    a, b = torch.randn(2, size, size)
    product = torch.empty(size, size)
    return lambda _: torch.mm(a, b, out=product)


if __name__ == "__main__":
    serve(make)
