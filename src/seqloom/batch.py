"""``Batch``: named sequence fields as padded tensors with padding masks; and the ids of the special tokens."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from seqloom.errors import InputError, ShapeError

PAD: Final = 0
BOS: Final = 1
EOS: Final = 2
UNK: Final = 3


class Padded(NamedTuple):
    """Sequences of different lengths as one padded tensor.

    values: B N …, padded at the end of every row.
    mask: padding mask, B N: True for real steps, False for padding.
    """

    values: Tensor
    mask: Tensor

    @property
    def lengths(self) -> Tensor:
        """The length of every row without padding, B."""
        return self.mask.sum(1)

    def to(self, device: torch.device | str) -> "Padded":
        """The same sequences on another device."""
        return Padded(self.values.to(device), self.mask.to(device))


class Batch:
    """A mini-batch: padded fields by name, such as ``source`` and ``target``, each with the same B examples.

    A target of tokens ends in EOS, which is not padding, and has no BOS. The batch of a language model has no source,
    and a batch for prediction has no target. Fields are validated when the batch is built.

    fields: at least one.
    """

    def __init__(self, fields: Mapping[str, Padded]) -> None:
        if not fields:
            raise InputError("a batch needs at least one field, such as a source or a target")
        for name, field in fields.items():
            _check_field(name, field)
        sizes = {name: field.mask.shape[0] for name, field in fields.items()}
        if len(set(sizes.values())) > 1:
            counts = " and ".join(f"{count} of {name!r}" for name, count in sizes.items())
            raise ShapeError(f"all fields of a batch must have the same number of rows, but there are {counts}")
        self._fields = dict(fields)

    @classmethod
    def from_lists(
        cls, targets: Sequence[Sequence[int]] | None = None, sources: Sequence[Sequence[int]] | None = None
    ) -> "Batch":
        """A batch from lists of token ids; EOS is appended to every target."""
        fields = {} if targets is None else {"target": pad([[*row, EOS] for row in targets])}
        return cls(fields if sources is None else {**fields, "source": pad(sources)})

    @classmethod
    def unchecked(cls, fields: Mapping[str, Padded]) -> "Batch":
        """A batch without validation, for tensors whose values can't be inspected, as in an export."""
        batch = object.__new__(cls)
        batch._fields = dict(fields)
        return batch

    @property
    def fields(self) -> Mapping[str, Padded]:
        """All fields by name."""
        return self._fields

    @property
    def source(self) -> Padded | None:
        """The field ``source``, or None."""
        return self._fields.get("source")

    @property
    def target(self) -> Padded | None:
        """The field ``target``, or None."""
        return self._fields.get("target")

    @property
    def rows(self) -> int:
        """B, the number of examples."""
        return next(iter(self._fields.values())).mask.shape[0]

    def __getitem__(self, name: str) -> Padded:
        """A field by name; an error if the batch does not have it."""
        if name not in self._fields:
            raise InputError(f"this batch has no field {name!r}, only {', '.join(map(repr, self._fields))}")
        return self._fields[name]

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return Batch.unchecked({name: field.to(device) for name, field in self._fields.items()})


def pad(rows: Sequence[Sequence[int]]) -> Padded:
    """Lists of token ids as one tensor, padded with PAD at the end."""
    if not rows:
        raise InputError("a batch needs at least one example")
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    ids = torch.full(mask.shape, PAD)
    ids[mask] = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    return Padded(ids, mask)


def shift(start_BX: Tensor, target: Padded) -> Tensor:
    """The decoder inputs of teacher forcing: the target shifted right by one step, after the start value; B T …

    The last step of every row (EOS) is never an input: its position is zero (PAD), like padding.
    """
    inputs, real = target.values[:, :-1], target.mask[:, 1:]
    inputs = inputs.masked_fill(~real.view(*real.shape, *[1] * (inputs.dim() - 2)), 0)
    return torch.cat((start_BX[:, None].to(inputs.dtype), inputs), 1)


def check_mask(name: str, mask: Tensor) -> None:
    """Raise an error if a row of the mask is all padding. (The values of a ``meta`` tensor can't be checked.)"""
    if mask.shape[-1] == 0:
        raise InputError(f"the {name} is empty: it has length 0")
    if not mask.is_meta and not bool(mask.any(-1).all()):
        row = int((~mask.any(-1)).flatten().nonzero()[0])
        raise InputError(f"the {name} of row {row} is empty: its mask is False at every step")


def mask_if_padded(mask: Tensor | None) -> Tensor | None:
    """The mask if it masks anything, or None if there is no padding: attention is faster without a mask.

    The values are checked on a CPU only: elsewhere the check would synchronize the device, or break a compiled graph.
    """
    if mask is None or mask.device.type != "cpu" or torch.compiler.is_compiling():
        return mask
    return None if bool(mask.all()) else mask


def _check_field(name: str, field: Padded) -> None:
    values, mask = field
    if mask.dtype != torch.bool:
        raise InputError(
            f"the mask of the {name} must be bool, True for real steps and False for padding; it is {mask.dtype}"
        )
    if values.shape[:2] != mask.shape:
        raise ShapeError(f"the {name} has shape {tuple(values.shape)}, but its mask has shape {tuple(mask.shape)}")
    check_mask(name, mask)
    if not mask.is_meta and bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise InputError(
            f"padding must be at the end of a row, but the mask of the {name} is False at a step before a real one"
        )
