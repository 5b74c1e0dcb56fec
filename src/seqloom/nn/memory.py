"""What passes between the parts while a model works: ``Memory``, ``DecoderState``, ``DecoderOutput``."""

from functools import cached_property
from typing import NamedTuple, NoReturn, Self

from torch import Tensor

from seqloom.batch import hiding
from seqloom.errors import SizeError

CellState = tuple[Tensor, ...]
"""The tensors that a cell hands to its next step, rows first; the first of them is its output h."""


class NamedTensors(dict[str, Tensor]):
    """Tensors by name, flat, all of them for the same rows."""

    def select(self, rows: Tensor) -> Self:
        """These rows of every tensor, in the given order."""
        return type(self)({name: tensor.index_select(0, rows) for name, tensor in self.items()})


class Memory(NamedTensors):
    """Everything that is fixed once the source is known: computed once, shared by a sentence's beams.

    values: B S H, what attention reads: the encoder's states. A language model has S = 0.
    mask: B S, True for real steps of the values.
    summary: B H, the whole source as one vector.
    final.N.NAME: the final state of layer N of a recurrent encoder, directions side by side.
    source: B S, the source as it came in.
    inputs.NAME: B N E, a further input that goes along with the target.
    output.NAME: what the output prepared.

    Beyond these, a decoder keeps whatever it can compute before the first step, such as projected keys.
    """

    def __len__(self) -> NoReturn:
        """Refused: it could mean the tensors or the sentences."""
        raise TypeError("len(memory) is ambiguous: use memory.rows for the number of sentences")

    def __bool__(self) -> bool:
        return True

    @property
    def mask(self) -> Tensor:
        """True for real steps of the values."""
        return self["mask"]

    @property
    def rows(self) -> int:
        """B, the number of sentences; in an export it stays a variable."""
        return self["mask"].shape[0]

    @cached_property
    def hiding(self) -> Tensor | None:
        """The mask, if it hides anything."""
        return hiding(self["mask"])


class DecoderState(NamedTensors):
    """Where a decoder stands: tensors by name, rows first in every one."""


class DecoderOutput(NamedTuple):
    """What a decoder gave for one step of R rows, or for all T steps of a target.

    features: R H, or B T H.
    attention: R S, or B T S: the attention weights; None without attention, or if they were not asked for.
    state: after the last step.
    """

    features: Tensor
    attention: Tensor | None
    state: DecoderState

    def as_rows(self, start: int, stop: int) -> "DecoderOutput":
        """Steps ``start`` to ``stop`` of a target as rows, adjacent for each sentence, as its beams are."""
        attention = None if self.attention is None else self.attention[:, start:stop].flatten(0, 1)
        return DecoderOutput(self.features[:, start:stop].flatten(0, 1), attention, DecoderState())


class NextStep(NamedTuple):
    """The log-probability of every next token R V, the attention weights R S or None, and the new state."""

    log_probs: Tensor
    attention: Tensor | None
    state: DecoderState


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
