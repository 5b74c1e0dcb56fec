"""Every combination once, and a batch to run it on."""

import pytest
import torch

from seqloom import Batch
from tests.contract.runs import COMBINATIONS, Combination, make_batch


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tensors this small are only slowed down by more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", params=COMBINATIONS, ids=lambda c: c.id)
def combination(request) -> Combination:
    return request.param


@pytest.fixture(scope="session")
def model(combination):
    return combination.build()


@pytest.fixture(scope="session")
def batch(model) -> Batch:
    return make_batch(model)
