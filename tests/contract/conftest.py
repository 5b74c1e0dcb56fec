"""Fixtures: a model for every combination of parts, and a batch to run it on."""

import pytest
import torch

from seqloom import Batch


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """More threads slow down operations on tensors this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_generate_tests(metafunc):
    if "combination" in metafunc.fixturenames:
        from tests.contract.runs import every_combination

        metafunc.parametrize("combination", every_combination(), ids=lambda c: c.id, scope="session")


@pytest.fixture(scope="session")
def model(combination):
    return combination.build()


@pytest.fixture(scope="session")
def batch(model) -> Batch:
    from tests.contract.runs import make_batch

    return make_batch(model)
