"""The tensors that the parts of a model exchange: ``Memory``, ``DecoderState``, ``DecoderOutput``, ``NextStep``."""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping
from functools import cached_property
from typing import NamedTuple, Self

from torch import Tensor

from seqloom.batch import mask_if_padded
from seqloom.errors import ShapeError

CellState = tuple[Tensor, ...]
"""The state of a cell, rows first: the tensors it passes to its next step. The first is its hidden state h."""


class Memory:
    """The encoded source: computed once per sentence and shared by all its beams and all decoder steps.

    values: B S H, the encoder states, which cross-attention reads. A language model has S = 0.
    mask: B S, the padding mask of the values.
    summary: B H, the whole source as one vector.
    final.N.NAME: the final state of layer N of a recurrent encoder, its directions concatenated.
    source: B S, the source as it was given.
    inputs.NAME: B N E, an additional input aligned with the target.
    output.NAME: a tensor from ``Output.prepare_memory``.

    A decoder adds what it can compute before the first step, such as projected keys.
    """

    def __init__(self, tensors: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]]) -> None:
        self._tensors = dict(tensors)

    # Not a dict: the length of one would be its number of tensors, where people expect the number of sentences.

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def get(self, name: str) -> Tensor | None:
        """A tensor, or None if there is none of this name."""
        return self._tensors.get(name)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._tensors.keys()

    def items(self) -> ItemsView[str, Tensor]:
        """The names and tensors."""
        return self._tensors.items()

    def select(self, rows: Tensor) -> Self:
        """The given sentences, in the given order."""
        return type(self)({name: tensor.index_select(0, rows) for name, tensor in self.items()})

    @property
    def mask(self) -> Tensor:
        """The padding mask of the values, B S."""
        return self["mask"]

    @property
    def rows(self) -> int:
        """B, the number of sentences; symbolic in an export."""
        return self["mask"].shape[0]

    @cached_property
    def mask_if_padded(self) -> Tensor | None:
        """The padding mask, or None if there is no padding."""
        return mask_if_padded(self["mask"])


class DecoderState(dict[str, Tensor]):
    """The state of a decoder between steps of incremental decoding: tensors by name, rows first.

    For example the hidden states of RNN layers, or the KV cache of a Transformer.
    """

    def select(self, rows: Tensor) -> Self:
        """The given rows of every tensor, in the given order."""
        return type(self)({name: tensor.index_select(0, rows) for name, tensor in self.items()})


class DecoderOutput(NamedTuple):
    """The output of a decoder for one step of R rows, or for all T steps of a target.

    features: R H, or B T H: the vectors that the output layer reads.
    attention: attention weights, R S or B T S; None without attention, or if they were not requested.
    state: the decoder state after the last step.
    """

    features: Tensor
    attention: Tensor | None
    state: DecoderState

    def as_rows(self, start: int, stop: int) -> "DecoderOutput":
        """Steps ``start`` to ``stop`` of a target as rows, those of a sentence adjacent, like beams."""
        attention = None if self.attention is None else self.attention[:, start:stop].flatten(0, 1)
        return DecoderOutput(self.features[:, start:stop].flatten(0, 1), attention, DecoderState())


class NextStep(NamedTuple):
    """Log-probabilities of the next token, R V; attention weights, R S or None; and the new decoder state."""

    log_probs: Tensor
    attention: Tensor | None
    state: DecoderState


def split_beams(rows_RX: Tensor, sentences: int) -> Tensor:
    """R … → B K …: rows grouped by sentence."""
    check_beams(rows_RX.shape[0], sentences)
    return rows_RX.view(sentences, -1, *rows_RX.shape[1:])


def check_beams(rows: int, sentences: int) -> None:
    """Raise an error if the rows can't be divided evenly among the sentences."""
    if rows % sentences:
        raise ShapeError(
            f"{rows} rows can't be divided among {sentences} sentences: every sentence needs the same number of beams"
        )


def repeat_for_beams(sentences_BX: Tensor, rows: int) -> Tensor:
    """B … → R …: the row of every sentence repeated for each of its beams."""
    B, *rest = sentences_BX.shape
    check_beams(rows, B)
    return sentences_BX[:, None].expand(B, rows // B, *rest).flatten(0, 1)
