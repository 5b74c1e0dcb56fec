"""Tests of parts from outside: ``pytest tests/contract --parts my_parts.py -k my_cell``."""

from pathlib import Path

from seqloom.registry import import_file


def pytest_addoption(parser):
    parser.addoption("--parts", action="append", default=[], metavar="FILE", help="register the parts of a file")


def pytest_configure(config):
    for file in config.getoption("--parts"):
        import_file(Path(file))
