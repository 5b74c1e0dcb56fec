"""What passes between the parts while a model works: ``Memory``, ``State``, ``Step``, ``Decoded``."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from torch import Tensor

from seqloom.batch import hiding
from seqloom.errors import SizeError

CellState = tuple[Tensor, ...]
"""The tensors that a cell hands to its next step, rows first; the first of them is its output h."""


@dataclass(frozen=True)
class Memory:
    """All that is fixed for a source, made once and shared by a sentence's beams.

    values: B S H, what attention reads: the encoder's states. A language model has S = 0.
    mask: B S, True where the source is real.
    keys: B first, what each attention of the decoder has prepared, by name.
    summary: B H, the whole source as one vector.
    final: for every layer of a recurrent encoder, the state after its last step, directions side by side.
    source: B S, the source's ids where it has any.
    longest: how many tokens an answer can have, where the decoder knows no more positions; None: any number.
    on_source: whether weights of attention are on the source; a decoder may attend to its own past instead.
    """

    values: Tensor
    mask: Tensor
    keys: dict[str, Tensor] = field(default_factory=dict)
    summary: Tensor | None = None
    final: tuple[CellState, ...] | None = None
    source: Tensor | None = None
    longest: int | None = None
    on_source: bool = True

    def __len__(self) -> int:
        """The number of sentences."""
        return len(self.mask)

    @cached_property
    def hiding(self) -> Tensor | None:
        """The mask, if it hides anything."""
        return hiding(self.mask)

    def select(self, sentences: Tensor) -> "Memory":
        """The memory of some of the sentences, in the given order."""
        return replace(
            self,
            values=self.values[sentences],
            mask=self.mask[sentences],
            keys={name: keys[sentences] for name, keys in self.keys.items()},
            summary=None if self.summary is None else self.summary[sentences],
            final=None if self.final is None else tuple(tuple(t[sentences] for t in s) for s in self.final),
            source=None if self.source is None else self.source[sentences],
        )


class State(dict[str, Tensor]):
    """Where a decoder stands: tensors by name, rows first in every one."""

    def select(self, rows: Tensor) -> "State":
        """The state of some of the rows, in the given order."""
        return State({name: tensor.index_select(0, rows) for name, tensor in self.items()})


class Step(NamedTuple):
    """What one step gave: features R H, weights of attention R S (None without attention), the new state."""

    features: Tensor
    weights: Tensor | None
    state: State


class Decoded(NamedTuple):
    """What a whole teacher-forced target gave: features B T H, weights of attention B T S."""

    features: Tensor
    weights: Tensor | None


def by_sentence(rows_RX: Tensor, sentences: int) -> Tensor:
    """R … → B K …: the beams of a sentence side by side."""
    check_beams(rows_RX.shape[0], sentences)
    return rows_RX.view(sentences, -1, *rows_RX.shape[1:])


def check_beams(rows: int, sentences: int) -> None:
    """Refuse rows that can't be beams of sentences."""
    if rows % sentences:
        raise SizeError(f"{rows} rows can't be beams of {sentences} sentences: each needs as many")


def for_rows(sentences_BX: Tensor, rows: int) -> Tensor:
    """B … → R …: what belongs to a sentence, for every one of its beams."""
    B, *rest = sentences_BX.shape
    check_beams(rows, B)
    return sentences_BX[:, None].expand(B, rows // B, *rest).flatten(0, 1)
