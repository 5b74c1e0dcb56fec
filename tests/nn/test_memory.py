"""What passes between the parts while a model works."""

import pytest
import torch

from seqloom.nn.memory import Memory


def test_a_memory_has_no_length_and_says_what_to_ask_for():
    """It could be that of the tensors or of the sentences; and code that asks whether it is empty must not fail."""
    memory = Memory(mask=torch.ones(3, 2, dtype=torch.bool))
    with pytest.raises(TypeError, match=r"use memory\.rows"):
        len(memory)
    assert memory.rows == 3
    assert memory
