"""Padding: rows of different lengths as one tensor and a mask."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from seqloom.batch import Padded

Array = npt.NDArray[Any]


def gather(values: Array, begin: npt.NDArray[np.int64], length: npt.NDArray[np.int64]) -> Padded:
    """Gather rows from a flat array and pad them with zeros at the end.

    Row b is ``values[begin[b] : begin[b] + length[b]]``.

    values: N …. Integers become int64, as PyTorch requires for ids; other numbers become float32.
    """
    steps = np.arange(length.max())
    mask = steps < length[:, None]
    dtype = np.int64 if np.issubdtype(values.dtype, np.integer) else np.float32
    padded = np.zeros((*mask.shape, *values.shape[1:]), dtype)
    padded[mask] = values[(begin[:, None] + steps)[mask]]
    return Padded(torch.from_numpy(padded), torch.from_numpy(mask))


def pad(rows: list[Array]) -> Padded:
    """Pad rows (steps, …) with zeros at the end."""
    length = np.array([len(row) for row in rows], dtype=np.int64)
    return gather(np.concatenate(rows), length.cumsum() - length, length)
