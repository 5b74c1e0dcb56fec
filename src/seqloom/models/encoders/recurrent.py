"""The recurrent encoder."""

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from seqloom.errors import ConfigError
from seqloom.models.encoders.base import Encoder, EncoderOutput, StateShape, masked_mean
from seqloom.nn.probe import Probe, no_probe
from seqloom.nn.recurrent import EMBEDDING_INIT_STD, StackedRNN
from seqloom.registry import Fraction, Spec, parse_spec, register


@register("encoder", "recurrent")
class RecurrentEncoder(Encoder):
    """Recurrent encoder: a stack of RNN layers over the source, in one or both directions.

    The values are the states h_1 … h_S of the top layer, both directions concatenated.

    cell: recurrent cell (seqloom parts cell).
    hidden_size: size of a hidden state, per direction.
    layers: number of layers.
    bidirectional: read the source in both directions (Schuster and Paliwal 1997).
    dropout: dropout probability between layers.
    initial_state: state before the first step, ``zero`` or ``learned``.
    summary: source as one vector: ``final``, the top layer's final state (of both directions); ``backward``, the
        final state of the backward direction only, which has just read the first token (Bahdanau et al. 2015);
        ``mean`` of all states.
    """

    final_state_shape: StateShape
    embedding_init_std = EMBEDDING_INIT_STD

    def __init__(
        self,
        input_size: int,
        *,
        cell: Spec = "lstm",
        hidden_size: PositiveInt = 256,
        layers: PositiveInt = 1,
        bidirectional: bool = False,
        dropout: Fraction = 0.0,
        initial_state: Literal["zero", "learned"] = "zero",
        summary: Literal["final", "backward", "mean"] = "final",
    ) -> None:
        super().__init__()
        if summary == "backward" and not bidirectional:
            raise ConfigError("encoder 'recurrent': summary='backward' needs bidirectional=True")
        self.recurrent = StackedRNN(
            input_size,
            hidden_size,
            cell=cell,
            layers=layers,
            bidirectional=bidirectional,
            dropout=dropout,
            initial_state=initial_state,
        )
        self.summary = summary
        self.output_size = self.recurrent.output_size
        self.summary_size = hidden_size if summary == "backward" else self.output_size
        self.final_state_shape = StateShape(
            parse_spec("cell", cell)[0], self.recurrent.state_names, layers, self.output_size
        )

    def check_read(self, reads: frozenset[str]) -> None:
        if self.summary != "final" and "summary" not in reads:
            raise ConfigError(
                f"encoder 'recurrent': summary={self.summary!r} has no effect, because neither the bridge nor the "
                "decoder reads the summary: remove it, or use bridge 'dense' or decoder.context 'summary'"
            )
        if self.summary == "backward" and reads == {"summary"}:
            raise ConfigError(
                "encoder 'recurrent': the forward direction is unused, because summary='backward' and the decoder "
                "does not attend to the source: use summary='final', or attention"
            )

    def forward(self, x_BSE: Tensor, mask_BS: Tensor, *, probe: Probe = no_probe) -> EncoderOutput:
        values_BSH, layers = self.recurrent(x_BSE, mask_BS, probe=probe)
        tensors = (tensor for layer in layers for tensor in layer)
        final = dict(zip(self.final_state_shape.names, tensors, strict=True))
        if self.summary == "mean":
            return EncoderOutput(values_BSH, masked_mean(values_BSH, mask_BS), final)
        h_BH = layers[-1][0]
        return EncoderOutput(values_BSH, h_BH[:, -self.summary_size :], final)
