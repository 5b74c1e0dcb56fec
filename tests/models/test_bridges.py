"""Bridges: from the encoder to the decoder's first state."""

import pytest

from seqloom import build_model
from seqloom.errors import SizeError


def test_a_state_is_handed_over_to_the_same_cell_only():
    settings = {"encoder.cell": "gru", "decoder.cell": "mut1"}
    with pytest.raises(SizeError, match=r"gru.*mut1"):
        build_model("luong", sizes={"source": 9, "target": 9}, size=4, settings=settings)
