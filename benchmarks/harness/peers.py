"""Whom we are compared with: the Python of each toolkit, with all that it needs, installed at first use."""

from pathlib import Path

from harness.environment import environment


def joeynmt() -> Path:
    """JoeyNMT 2.3.0."""
    return environment("joeynmt", [["torch"], ["joeynmt==2.3.0", "importlib_metadata"]])


def yoyodyne() -> Path:
    """Yoyodyne 0.5.27. It declares torchvision, of which it uses nothing, and which keeps it from being imported."""
    return environment("yoyodyne", [["torch"], ["yoyodyne==0.5.27"]], removes=["torchvision"])


def ctranslate2() -> Path:
    """CTranslate2 4.8.4, which brings its own matrix products and has no use for PyTorch."""
    return environment("ctranslate2", [["ctranslate2==4.8.4"]])
