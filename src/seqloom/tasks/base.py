"""What a task is: pairs to learn from, and what to read and judge them by."""

from typing import ClassVar

Pair = tuple[str, str]
"""A source and its target."""


class Task:
    """Pairs of source and target for training, development and test, the same for the same options.

    A subclass makes its three lists from its options. Its class says what suits the task when a person chooses
    nothing: the ``tokenizer`` and the ``metric``, by their names in the registry.
    """

    tokenizer: ClassVar[str] = "character"
    metric: ClassVar[str] = "exact"

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
