"""``Batch``: examples as padded tensors, and the symbols that every vocabulary begins with."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from torch import Tensor

from seqloom.errors import InputError, SizeError

PAD: Final = 0
START: Final = 1
END: Final = 2
UNKNOWN: Final = 3


@dataclass(frozen=True)
class Batch:
    """Examples as padded tensors.

    A mask is True where a step is real; padding is at the end of a row. A target of tokens ends in END, which is
    real, and has no START: the output puts that in front when the target is fed. A language model's batch has no
    source; one whose target is not known yet has no target.
    """

    target: Tensor | None = None
    target_mask: Tensor | None = None
    source: Tensor | None = None
    source_mask: Tensor | None = None

    def __post_init__(self) -> None:
        if self.target is None and self.source is None:
            raise InputError("a batch has a target, a source or both")
        _check_side("target", self.target, self.target_mask)
        _check_side("source", self.source, self.source_mask)
        if self.target is not None and self.source is not None and len(self.source) != len(self.target):
            raise SizeError(f"{len(self.source)} sources and {len(self.target)} targets make no batch")

    @classmethod
    def of(
        cls, targets: Sequence[Sequence[int]] | None = None, sources: Sequence[Sequence[int]] | None = None
    ) -> "Batch":
        """A batch of token ids as plain lists; END is put behind every target."""
        target, target_mask = (None, None) if targets is None else pad([[*row, END] for row in targets])
        source, source_mask = (None, None) if sources is None else pad(sources)
        return cls(target, target_mask, source, source_mask)

    @classmethod
    def unchecked(cls, **sides: Tensor | None) -> "Batch":
        """A batch whose tensors can't be looked at, as in an export: what they hold is not known then."""
        batch = object.__new__(cls)
        for field in fields(cls):
            object.__setattr__(batch, field.name, sides.get(field.name))
        return batch

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        moved: dict[str, Any] = {k: v if v is None else v.to(device) for k, v in vars(self).items()}
        return Batch(**moved)


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor, padded at the end, and its mask."""
    if not rows:
        raise InputError("a batch of no examples: give at least one")
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    ids = torch.full(mask.shape, PAD)
    ids[mask] = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    return ids, mask


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


def _check_side(what: str, tensor: Tensor | None, mask: Tensor | None) -> None:
    if (tensor is None) != (mask is None):
        raise InputError(f"a batch has a {what} and its mask, or neither")
    if tensor is None or mask is None:
        return
    if mask.dtype != torch.bool:
        raise InputError(f"the {what}'s mask must be of bool, True where real; it is of {mask.dtype}")
    if tensor.shape[:2] != mask.shape:
        raise SizeError(f"the {what} is {tuple(tensor.shape)} but its mask is {tuple(mask.shape)}")
    check_mask(what, mask)
    if not mask.is_meta and bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise InputError(f"padding goes to the end of a row, and the {what}'s mask has some before a real step")
