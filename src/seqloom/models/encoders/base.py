"""The base class of encoders."""

from typing import NamedTuple

from torch import Tensor, nn

from seqloom.nn.probe import Probe, no_probe


class StateShape(NamedTuple):
    """The shape of the states of a stack of recurrent layers.

    cell: the name of the cell.
    state_names: the names of the cell's state tensors, such as ``h`` and ``c``.
    """

    cell: str
    state_names: tuple[str, ...]
    layers: int
    hidden_size: int

    @property
    def names(self) -> list[str]:
        """``LAYER.NAME`` of every tensor, layer by layer."""
        return [f"{n}.{name}" for n in range(self.layers) for name in self.state_names]

    def __str__(self) -> str:
        return f"{self.layers} × {self.cell} ({', '.join(self.state_names)}) of size {self.hidden_size}"


class EncoderOutput(NamedTuple):
    """Values B S H, one per source step; summary B H; a recurrent encoder's final states as ``LAYER.NAME``."""

    values: Tensor
    summary: Tensor
    final: dict[str, Tensor]


class Encoder(nn.Module):
    """Maps the embedded source to contextual states.

    output_size: size of the values.
    summary_size: size of the summary, one vector for the whole source.
    final_state_shape: the shape of the final states; None for an encoder without recurrent states.
    max_length: the maximum number of source tokens; None: no limit.
    embedding_init_std: the initial standard deviation of the embeddings that the encoder reads.
    """

    output_size: int
    summary_size: int
    final_state_shape: StateShape | None = None
    max_length: int | None = None
    embedding_init_std: float = 1.0

    def check_read(self, reads: frozenset[str]) -> None:
        """Refuse options with no effect, and parameters that get no gradient, given which memory entries are read."""

    def forward(self, x_BSE: Tensor, mask_BS: Tensor, *, probe: Probe = no_probe) -> EncoderOutput:
        raise NotImplementedError


def masked_mean(values_BSH: Tensor, mask_BS: Tensor) -> Tensor:
    """The mean over the non-padding steps of every row, B H."""
    mask_BS1 = mask_BS[..., None].to(values_BSH.dtype)
    return (values_BSH * mask_BS1).sum(1) / mask_BS1.sum(1)
