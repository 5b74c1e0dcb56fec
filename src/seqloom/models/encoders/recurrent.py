"""The recurrent encoder."""

from typing import Literal

from torch import Tensor

from seqloom.errors import OptionError
from seqloom.models.encoders.base import Encoded, Encoder, StateShape, mean_of_real
from seqloom.nn.probe import Probe, silent
from seqloom.nn.recurrent import INPUT_DEVIATION, Recurrent
from seqloom.registry import Count, Share, Spec, register, split


@register("encoder", "recurrent")
class RecurrentEncoder(Encoder):
    """A stack of recurrent layers over the source, in one or both directions.

    Values are the states h_1 … h_S of the top layer, both directions side by side.

    cell: which cell.
    size: of a hidden state, per direction.
    layers: how many.
    bidirectional: read the source both ways (Schuster and Paliwal 1997).
    dropout: between layers.
    initial: the state before the first step, ``zero`` or ``learned``.
    summary: ``final``, the top layer's last state (of both directions); ``backward``, the last state of the backward
        direction only, which has just read the first word (Bahdanau et al. 2015); ``mean`` of all states.
    """

    final: StateShape
    input_deviation = INPUT_DEVIATION

    def __init__(
        self,
        input_size: int,
        *,
        cell: Spec = "lstm",
        size: Count = 256,
        layers: Count = 1,
        bidirectional: bool = False,
        dropout: Share = 0.0,
        initial: Literal["zero", "learned"] = "zero",
        summary: Literal["final", "backward", "mean"] = "final",
    ) -> None:
        super().__init__()
        if summary == "backward" and not bidirectional:
            raise OptionError("encoder 'recurrent': summary='backward' needs bidirectional=True")
        self.recurrent = Recurrent(
            input_size,
            size,
            cell=cell,
            layers=layers,
            bidirectional=bidirectional,
            dropout=dropout,
            initial=initial,
        )
        self.summary = summary
        self.output_size = self.recurrent.output_size
        self.summary_size = size if summary == "backward" else self.output_size
        self.final = StateShape(split("cell", cell)[0], self.recurrent.parts, layers, self.output_size)

    def check_read(self, reads: frozenset[str]) -> None:
        if self.summary != "final" and "summary" not in reads:
            raise OptionError(
                f"encoder 'recurrent': summary={self.summary!r} has no use, as nothing reads a summary: leave it "
                "out, or use another bridge or decoder"
            )
        if self.summary == "backward" and reads == {"summary"}:
            raise OptionError(
                "encoder 'recurrent': nothing reads its forward direction, as summary='backward' and the decoder "
                "attends to no values: use summary='final', or attention"
            )

    def forward(self, x_BSE: Tensor, mask_BS: Tensor, *, probe: Probe = silent) -> Encoded:
        values_BSH, layers = self.recurrent(x_BSE, mask_BS, probe=probe)
        final = dict(zip(self.final.names, (tensor for layer in layers for tensor in layer), strict=True))
        if self.summary == "mean":
            return Encoded(values_BSH, mean_of_real(values_BSH, mask_BS), final)
        last_h = layers[-1][0]
        return Encoded(values_BSH, last_h[:, -self.summary_size :], final)
