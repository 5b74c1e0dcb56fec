"""Python environments of the toolkits that seqloom is compared with, installed at first use."""

from pathlib import Path

from harness.environment import environment


def joeynmt() -> Path:
    """JoeyNMT 2.3.0."""
    return environment("joeynmt", [["torch"], ["joeynmt==2.3.0", "importlib_metadata"]])


def yoyodyne() -> Path:
    """Yoyodyne 0.5.27, without torchvision: it does not use that dependency, and can't be imported with it."""
    return environment("yoyodyne", [["torch"], ["yoyodyne==0.5.27"]], removes=["torchvision"])


def ctranslate2() -> Path:
    """CTranslate2 4.8.4, which has its own matrix multiplication and does not need PyTorch."""
    return environment("ctranslate2", [["ctranslate2==4.8.4"]])
