"""Bridges: from the encoder's output to the decoder's initial state."""

import pytest

from seqloom import build_model
from seqloom.errors import ShapeError


def test_copy_bridge_requires_the_same_cell():
    overrides = {"encoder.cell": "gru", "decoder.cell": "mut1"}
    with pytest.raises(ShapeError, match=r"gru.*mut1"):
        build_model("luong", sizes={"source": 9, "target": 9}, hidden_size=4, overrides=overrides)
