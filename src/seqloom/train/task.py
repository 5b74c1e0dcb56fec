"""The task that a run is trained on, if it is one: its examples, and the defaults that suit them."""

from seqloom.config import Config
from seqloom.data.examples import Example
from seqloom.errors import OptionError
from seqloom.registry import build


def task_examples(config: Config) -> tuple[list[Example], list[Example] | None]:
    """The training and validation examples of the configuration's task; no validation examples if it names files.

    The task's tokenizers and metric go into the configuration wherever it leaves them open.
    """
    data = config.data
    assert data.task is not None
    if data.train is not None:
        raise OptionError("data.task and data.train are both set: leave out one of them")
    task = build("task", data.task)
    for side, tokenizer in task.fields.items():
        if getattr(data, side) is None:
            setattr(data, side, tokenizer)
    if config.train.metric is None:
        config.train.metric = task.metric
    dev = None if data.dev is not None else [Example(*pair) for pair in task.dev]
    return [Example(*pair) for pair in task.train], dev
