"""Chunked top-k: compared with a full sort."""

import pytest
import torch

from seqloom.decode.top import CHUNK, chunked_topk


@pytest.mark.parametrize("size", [1, 3, CHUNK, 12 * CHUNK, 12 * CHUNK + 7, 40 * CHUNK - 1])
@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_chunked_topk_equals_full_sort(size, k):
    x = torch.randn(2, 3, size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    x[0, 1, : size - 2] = -torch.inf  # few tokens are allowed
    x[1, 2] = -torch.inf  # no token is allowed
    values, indices = chunked_topk(x, k)
    expected = x.sort(descending=True).values[..., :k]
    assert torch.equal(values, expected)
    assert torch.equal(x.gather(-1, indices), expected)
    assert all(len(set(row)) == len(row) for row in indices.flatten(0, 1).tolist())


def test_nan_is_kept():
    x = torch.zeros(20 * CHUNK)
    x[777] = torch.nan
    assert bool(chunked_topk(x, 2)[0].isnan().any())
