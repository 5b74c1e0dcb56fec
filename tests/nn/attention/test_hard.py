"""Hard attention."""

import numpy as np

from tests.nn.attention.formulas import check_normalizer


def test_formula():
    """If several scores are the highest, the first one is selected."""
    check_normalizer("hard", lambda scores: np.eye(len(scores))[min(np.flatnonzero(scores == scores.max()))])
