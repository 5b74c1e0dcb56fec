"""Option to test external parts: ``pytest tests/contract --parts my_parts.py -k my_cell``."""

from pathlib import Path

import pytest

from seqloom import registry
from seqloom.registry import import_file


def pytest_addoption(parser):
    parser.addoption(
        "--parts", action="append", default=[], metavar="FILE", help="register the parts in a Python file"
    )


def pytest_configure(config):
    for file in config.getoption("--parts"):
        import_file(Path(file))


@pytest.fixture(scope="module")
def outside(request):
    """Register the parts in the files that a test module lists as ``OUTSIDE``, in ``promise/``, during its tests."""
    for kind in registry.KINDS:
        registry.parts(kind)  # import all built-in parts first, so that they stay registered
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_parts", {kind: dict(parts) for kind, parts in registry._parts.items()})
        for file in request.module.OUTSIDE:
            import_file(Path(__file__).parent / "promise" / file)
        yield
