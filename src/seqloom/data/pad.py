"""Rows of different lengths as one tensor, whatever they hold."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from seqloom.batch import Padded

Array = npt.NDArray[Any]


def gather(values: Array, begin: npt.NDArray[np.int64], length: npt.NDArray[np.int64]) -> Padded:
    """Rows out of one long array, padded with zeros at the end: row b is ``values[begin[b] : begin[b] + length[b]]``.

    values: N …; whole numbers become int64, as PyTorch wants ids, and others float32.
    """
    steps = np.arange(length.max())
    real = steps < length[:, None]
    dtype = np.int64 if np.issubdtype(values.dtype, np.integer) else np.float32
    padded = np.zeros((*real.shape, *values.shape[1:]), dtype)
    padded[real] = values[(begin[:, None] + steps)[real]]
    return Padded(torch.from_numpy(padded), torch.from_numpy(real))


def pad(rows: list[Array]) -> Padded:
    """Rows (steps, …), padded with zeros at the end."""
    length = np.array([len(row) for row in rows], dtype=np.int64)
    return gather(np.concatenate(rows), length.cumsum() - length, length)
