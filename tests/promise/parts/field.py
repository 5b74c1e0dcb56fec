"""Integers as binary digits."""

import numpy as np

from seqloom import register
from seqloom.data.fields import Field


@register("field", "outside_digits")
class OutsideDigits(Field):
    """A list of integers from 0 to 255, each encoded as eight bits."""

    shape = (8,)
    dtype = np.dtype(np.uint8)
    size = 8

    def metrics(self, values):
        return ("loss",)

    def fit(self, values):
        for _ in values:
            pass

    def encode(self, values, examples):
        return [np.unpackbits(np.array(value, np.uint8)[:, None], axis=1) for value in values]

    def decode(self, row, example):
        return np.packbits(row.astype(np.uint8), axis=1)[:, 0].tolist()

    def show(self, row):
        return [str(number) for number in self.decode(row, {})]
