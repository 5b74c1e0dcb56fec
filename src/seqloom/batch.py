"""``Batch``: examples as padded tensors by name, and the symbols that every vocabulary begins with."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from seqloom.errors import InputError, SizeError

PAD: Final = 0
START: Final = 1
END: Final = 2
UNKNOWN: Final = 3


class Padded(NamedTuple):
    """Sequences of different lengths as one tensor.

    values: B N …, padded at the end of every row.
    mask: B N, True for real steps.
    """

    values: Tensor
    mask: Tensor

    @property
    def lengths(self) -> Tensor:
        """The number of real steps of every row, B."""
        return self.mask.sum(1)

    def to(self, device: torch.device | str) -> "Padded":
        """The same sequences on another device."""
        return Padded(self.values.to(device), self.mask.to(device))


class Batch:
    """Examples as padded fields by name, all of them for the same B examples; checked when it is built.

    A target of tokens ends in END, which is a real step, and has no START. A language model's batch has no source,
    and a batch to predict has no target.

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
            raise SizeError(f"the fields of a batch must have the same number of rows, but there are {counts}")
        self._fields = dict(fields)

    @classmethod
    def of(
        cls, targets: Sequence[Sequence[int]] | None = None, sources: Sequence[Sequence[int]] | None = None
    ) -> "Batch":
        """A batch of token ids as plain lists; END is added to every target."""
        fields = {} if targets is None else {"target": pad([[*row, END] for row in targets])}
        return cls(fields if sources is None else {**fields, "source": pad(sources)})

    @classmethod
    def unchecked(cls, fields: Mapping[str, Padded]) -> "Batch":
        """A batch whose values can't be inspected, as in an export."""
        batch = object.__new__(cls)
        batch._fields = dict(fields)
        return batch

    @property
    def fields(self) -> Mapping[str, Padded]:
        """All fields by name."""
        return self._fields

    @property
    def source(self) -> Padded | None:
        """The source, if there is one."""
        return self._fields.get("source")

    @property
    def target(self) -> Padded | None:
        """The target, if it is known."""
        return self._fields.get("target")

    @property
    def rows(self) -> int:
        """B, the number of examples."""
        return next(iter(self._fields.values())).mask.shape[0]

    def __getitem__(self, name: str) -> Padded:
        """A field that must be there."""
        if name not in self._fields:
            raise InputError(f"this batch has no field {name!r}, only {', '.join(map(repr, self._fields))}")
        return self._fields[name]

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return Batch.unchecked({name: field.to(device) for name, field in self._fields.items()})


def pad(rows: Sequence[Sequence[int]]) -> Padded:
    """Rows of ids, padded at the end."""
    if not rows:
        raise InputError("a batch of no examples: give at least one")
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    ids = torch.full(mask.shape, PAD)
    ids[mask] = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    return Padded(ids, mask)


def shift(start_BX: Tensor, target: Padded) -> Tensor:
    """What is fed for a known target: the start, then each step's predecessor; B T …

    Nothing is fed after the last real step, so that step is never fed at all: it is zero, as padding is.
    """
    before, real = target.values[:, :-1], target.mask[:, 1:]
    before = before.masked_fill(~real.view(*real.shape, *[1] * (before.dim() - 2)), 0)
    return torch.cat((start_BX[:, None].to(before.dtype), before), 1)


def check_mask(what: str, mask: Tensor) -> None:
    """Refuse a mask with a row that has nothing real. (What a tensor holds can't be seen on ``meta``.)"""
    if mask.shape[-1] == 0:
        raise InputError(f"the {what} is empty: it has no step at all")
    if not mask.is_meta and not bool(mask.any(-1).all()):
        row = int((~mask.any(-1)).flatten().nonzero()[0])
        raise InputError(f"the {what} of row {row} is empty: its mask has no real step")


def hiding(mask: Tensor | None) -> Tensor | None:
    """The mask if it hides anything, None if all is real: then nothing has to be masked.

    Only a CPU is asked. Elsewhere one would have to wait for the answer, and a compiled graph for every answer.
    """
    if mask is None or mask.device.type != "cpu" or torch.compiler.is_compiling():
        return mask
    return None if bool(mask.all()) else mask


def _check_field(name: str, field: Padded) -> None:
    values, mask = field
    if mask.dtype != torch.bool:
        raise InputError(f"the {name}'s mask must be of bool, True where real; it is of {mask.dtype}")
    if values.shape[:2] != mask.shape:
        raise SizeError(f"the {name} is {tuple(values.shape)} but its mask is {tuple(mask.shape)}")
    check_mask(name, mask)
    if not mask.is_meta and bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise InputError(f"padding goes to the end of a row, and the {name}'s mask has some before a real step")
