"""Weights and checkpoints in files: written and read back, and those of another version refused by name."""

import pytest
import safetensors.torch
import torch

from seqloom.errors import SeqloomError
from seqloom.train.checkpoint import FORMAT, load_checkpoint, load_weights, save_weights

WEIGHTS = {"a": torch.randn(3, 2), "b": torch.randn(2, 3).t(), "c": torch.tensor([1, 2])}


def test_weights_are_read_as_they_were_written(tmp_path):
    save_weights(tmp_path / "weights", WEIGHTS)
    read = load_weights(tmp_path / "weights")
    assert read.keys() == WEIGHTS.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in WEIGHTS.items())


@pytest.mark.parametrize(
    "metadata", [None, {"seqloom": "0.1.0"}, {"format": "pt"}, {"seqloom_format": "99"}], ids=str
)
def test_weights_of_another_format_are_refused(tmp_path, metadata):
    safetensors.torch.save_file({"a": torch.zeros(2)}, tmp_path / "weights", metadata)
    found = (metadata or {}).get("seqloom_format", 1)
    with pytest.raises(SeqloomError, match=rf"weights was written by .* \(format {found}, .* reads {FORMAT}\)"):
        load_weights(tmp_path / "weights")


@pytest.mark.parametrize("state", [{"format": FORMAT - 1, "random": None}, {"weights": torch.zeros(2)}], ids=str)
def test_a_checkpoint_of_another_format_is_refused_and_no_random_number_is_set(tmp_path, state):
    torch.save(state, tmp_path / "checkpoint")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with pytest.raises(SeqloomError, match="train the run anew"):
        load_checkpoint(tmp_path / "checkpoint")
    assert torch.equal(torch.get_rng_state(), before)
