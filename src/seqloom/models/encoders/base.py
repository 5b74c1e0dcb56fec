"""What an encoder is."""

from typing import NamedTuple

from torch import Tensor, nn

from seqloom.nn.probe import Probe, silent


class StateShape(NamedTuple):
    """The shape of a stack of recurrent states, for a bridge to compare."""

    cell: str
    parts: tuple[str, ...]
    layers: int
    size: int

    @property
    def names(self) -> list[str]:
        """``LAYER.NAME`` of every tensor, layer by layer."""
        return [f"{n}.{part}" for n in range(self.layers) for part in self.parts]

    def __str__(self) -> str:
        return f"{self.layers} × {self.cell} ({', '.join(self.parts)}) of width {self.size}"


class Encoded(NamedTuple):
    """A source in its context: values B S H, summary B H, a recurrent encoder's final states as ``LAYER.NAME``."""

    values: Tensor
    summary: Tensor
    final: dict[str, Tensor]


class Encoder(nn.Module):
    """The source in its context.

    output_size: of the values.
    summary_size: of the summary, the whole source as one vector.
    final: the shape of the last states; None where there are none.
    longest: how many steps a source can have; None: any number.
    input_deviation: the standard deviation that embeddings should begin with, to suit it.
    """

    output_size: int
    summary_size: int
    final: StateShape | None = None
    longest: int | None = None
    input_deviation: float = 1.0

    def check_read(self, reads: frozenset[str]) -> None:
        """Refuse if this encoder would learn nothing, given what of the memory is read."""

    def forward(self, x_BSE: Tensor, mask_BS: Tensor, *, probe: Probe = silent) -> Encoded:
        raise NotImplementedError


def mean_of_real(values_BSH: Tensor, mask_BS: Tensor) -> Tensor:
    """The mean over a row's real steps, B H."""
    real_BS1 = mask_BS[..., None].to(values_BSH.dtype)
    return (values_BSH * real_BS1).sum(1) / real_BS1.sum(1)
