"""The greatest few of many, against a full sort."""

import pytest
import torch

from seqloom.decode.top import CHUNK, best


@pytest.mark.parametrize("size", [1, 3, CHUNK, 12 * CHUNK, 12 * CHUNK + 7, 40 * CHUNK - 1])
@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_it_is_a_full_sort_cut_off(size, k):
    x = torch.randn(2, 3, size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    x[0, 1, : size - 2] = -torch.inf  # hardly anything is allowed
    x[1, 2] = -torch.inf  # and here nothing
    values, places = best(x, k)
    expected = x.sort(descending=True).values[..., :k]
    assert torch.equal(values, expected)
    assert torch.equal(x.gather(-1, places), expected)
    assert all(len(set(row)) == len(row) for row in places.flatten(0, 1).tolist())


def test_what_is_no_number_is_not_lost():
    x = torch.zeros(20 * CHUNK)
    x[777] = torch.nan
    assert bool(best(x, 2)[0].isnan().any())
