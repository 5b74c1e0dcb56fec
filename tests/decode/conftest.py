"""One thread: the tensors in these tests are too small for more."""

import torch

torch.set_num_threads(1)
