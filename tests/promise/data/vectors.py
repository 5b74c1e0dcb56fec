"""Sequences of real vectors as a data type: an external field, embedder, output and metric."""

import numpy as np
import torch
from pydantic import PositiveInt
from torch import nn

from seqloom import register
from seqloom.batch import Padded
from seqloom.data.fields import Field
from seqloom.errors import InputError
from seqloom.metrics import Metric
from seqloom.nn.embedders import Embedder
from seqloom.nn.outputs import Loss, Output


@register("field", "vectors")
class Vectors(Field):
    """A list of vectors, standardized, optionally with an additional end-of-sequence flag per vector.

    width: number of values per vector.
    end: whether to append the flag.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, *, width: PositiveInt = 1, end: bool = False):
        self.width, self.end = width, end
        self.shape = (width + end,)

    @property
    def size(self):
        return self.shape[0]

    def metrics(self, values):
        return ("rmse",)

    def fit(self, values):
        rows = np.concatenate([np.array(value, np.float32).reshape(-1, self.width) for value in values])
        self.mean, self.deviation = rows.mean(0), rows.std(0)

    def encode(self, values, examples):
        return [self._encoded(value) for value in values]

    def _encoded(self, value):
        try:
            row = (np.array(value, np.float32).reshape(-1, self.width) - self.mean) / self.deviation
        except ValueError:
            raise InputError(f"{value!r} is not a list of vectors of size {self.width}") from None
        flag = np.arange(len(row))[:, None] == len(row) - 1
        return np.concatenate((row, flag), 1).astype(np.float32) if self.end else row

    def decode(self, row, example):
        return (row[:, : self.width] * self.deviation + self.mean).tolist()

    def show(self, row):
        return [" ".join(f"{number:.2f}" for number in step) for step in row]

    def state(self):
        return {"mean": self.mean, "deviation": self.deviation}

    def restore(self, state):
        self.mean, self.deviation = state["mean"], state["deviation"]


@register("embedder", "vectors")
class VectorEmbedder(Embedder):
    """A linear map of vectors.

    embedding_size: output size.
    """

    def __init__(self, width, *, embedding_size: PositiveInt = 256):
        super().__init__()
        self.output_size = embedding_size
        self.linear = nn.Linear(width, embedding_size)

    def forward(self, given):
        return Padded(self.linear(given.values), given.mask)


@register("output", "squared_error")
class SquaredError(Output):
    """Vectors, trained with the loss Σ |y − W f − b|².

    ends: whether the last value is an end-of-sequence flag.
    """

    def __init__(self, width, *, ends: bool = True):
        super().__init__()
        self.input_size, self.ends = width, ends

    def set_feature_size(self, feature_size, embedding_init_std):
        self.linear = nn.Linear(feature_size, self.input_size)

    def start(self, memory):
        return memory["values"].new_zeros(memory.rows, self.input_size)

    def feed(self, value):
        return value

    def loss(self, decoded, memory, target):
        error = (self.linear(decoded.features) - target.values)[target.mask].square().sum()
        return Loss(error, target.mask.sum(), error.detach())

    def sample(self, decoded, memory, *, temperature=1.0, generator=None):
        mean = self.linear(decoded.features)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device) if temperature else 0.0
        return mean + temperature * 0.5**0.5 * noise

    def ended(self, value):
        return value[:, -1] > 0.5 if self.ends else None


@register("metric", "rmse")
class Rmse(Metric):
    """Root mean squared error; the shorter sequence is padded with zeros."""

    name = "rmse"
    higher_is_better = False
    digits = 3

    def statistics(self, data):
        rows = []
        for prediction, (reference, *_) in data.pairs(self.name):
            one, other = np.array(prediction), np.array(reference)
            steps = max(len(one), len(other))
            one, other = (np.pad(x.reshape(len(x), -1), ((0, steps - len(x)), (0, 0))) for x in (one, other))
            rows.append([np.square(one - other).sum(), other.size])
        return np.array(rows)

    def value(self, totals):
        return np.sqrt(totals[..., 0] / totals[..., 1])
