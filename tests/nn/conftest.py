"""One thread: the tensors of these tests are too small to benefit from more."""

import torch

torch.set_num_threads(1)
