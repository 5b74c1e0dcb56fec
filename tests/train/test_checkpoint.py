"""Weights and checkpoints: saving, loading, and rejecting other format versions."""

import pytest
import safetensors.torch
import torch

from seqloom.errors import SeqloomError
from seqloom.train.checkpoint import FORMAT, load_checkpoint, load_weights, save_weights

WEIGHTS = {"a": torch.randn(3, 2), "b": torch.randn(2, 3).t(), "c": torch.tensor([1, 2])}


def test_saved_weights_round_trip(tmp_path):
    save_weights(tmp_path / "weights", WEIGHTS)
    read = load_weights(tmp_path / "weights")
    assert read.keys() == WEIGHTS.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in WEIGHTS.items())


@pytest.mark.parametrize(
    "metadata", [None, {"seqloom": "0.1.0"}, {"format": "pt"}, {"seqloom_format": "99"}], ids=str
)
def test_weights_of_other_format_are_rejected(tmp_path, metadata):
    safetensors.torch.save_file({"a": torch.zeros(2)}, tmp_path / "weights", metadata)
    found = (metadata or {}).get("seqloom_format", 1)
    with pytest.raises(SeqloomError, match=f"weights has format {found}, .* reads formats 2 and {FORMAT}"):
        load_weights(tmp_path / "weights")


@pytest.mark.parametrize("state", [{"format": 1, "random": None}, {"weights": torch.zeros(2)}], ids=str)
def test_checkpoint_of_other_format_is_rejected_without_setting_random_state(tmp_path, state):
    torch.save(state, tmp_path / "checkpoint")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with pytest.raises(SeqloomError, match="train the model again"):
        load_checkpoint(tmp_path / "checkpoint")
    assert torch.equal(torch.get_rng_state(), before)
