"""Cosine similarity of query and key, multiplied by a constant (Graves et al. 2014)."""

from torch.nn import functional as F

from seqloom import register
from seqloom.nn.attention import ScoreFunction


@register("score", "outside_cosine")
class OutsideCosine(ScoreFunction):
    """score(q, k) = β cos(q, k).

    strength: factor β.
    """

    def __init__(self, query_size, key_size, *, strength: float = 5.0):
        super().__init__(query_size, key_size)
        self.require_one_size("outside_cosine")
        self.strength = strength

    def project_keys(self, keys_BSD):
        return F.normalize(keys_BSD, dim=-1)

    def score(self, query_BTD, projected_BSD):
        return self.strength * F.normalize(query_BTD, dim=-1) @ projected_BSD.mT
