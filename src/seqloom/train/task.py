"""Training on a task: its examples, and its default tokenizers and metric."""

from seqloom.config import Config
from seqloom.data.examples import Example
from seqloom.errors import ConfigError
from seqloom.registry import build


def task_examples(config: Config) -> tuple[list[Example], list[Example] | None]:
    """The training and validation examples of the configured task; None for validation if ``data.dev`` is set.

    Sets the tokenizers and the validation metric of the task in the configuration, unless they are set already.
    """
    data = config.data
    assert data.task is not None
    if data.train is not None:
        raise ConfigError("data.task and data.train can't both be set: remove one of them")
    task = build("task", data.task)
    for side, tokenizer in task.fields.items():
        if getattr(data, f"{side}_tokenizer") is None:
            setattr(data, f"{side}_tokenizer", tokenizer)
    if config.train.validation_metric is None:
        config.train.validation_metric = task.metric
    dev = None if data.dev is not None else [Example(*pair) for pair in task.dev]
    return [Example(*pair) for pair in task.train], dev
