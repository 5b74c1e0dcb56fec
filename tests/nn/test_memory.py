"""The encoded source, ``Memory``."""

import pytest
import torch

from seqloom.nn.memory import Memory


def test_len_of_memory_is_an_error_but_memory_is_truthy():
    """The length could be the number of tensors or of sentences; ``if memory`` must work nevertheless."""
    memory = Memory({"mask": torch.ones(3, 2, dtype=torch.bool)})
    with pytest.raises(TypeError, match=r"no len\(\)"):
        len(memory)
    assert memory.rows == 3
    assert memory
