"""What an encoder–decoder and a language model have in common."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from seqloom.batch import Batch, Padded, shift
from seqloom.errors import InputError, OptionError
from seqloom.models.decoders import Decoder
from seqloom.models.inputs import Inputs
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory, NextStep
from seqloom.nn.outputs import Categorical, Loss, Output
from seqloom.nn.probe import Probe, silent, within

ROWS = 512
"""How many rows of log-probabilities over the whole vocabulary are held at a time."""


class Autoregressive(nn.Module):
    """A model that writes a target step by step, each step seeing those before it.

    ``step`` repeated gives what ``forward`` gives for a whole known target. Search and scoring use only ``encode``,
    ``initial_state``, ``next_log_probs``, ``log_probs``, ``max_length`` and ``attends_to``. A kind of model without a
    ``decoder`` writes ``encode``, ``initial_state``, ``step``, ``forward`` and the properties itself.
    """

    decoder: Decoder
    output: Output
    inputs: Inputs

    has_source: ClassVar[bool] = True
    """Whether it reads a source: training wants pairs."""

    def attach_output(self) -> None:
        """Have the output read the decoder's features, and its attention weights if it needs them."""
        if self.output.needs_attention and self.decoder.attends_to is None:
            raise OptionError("this output reads attention weights, and the decoder has none: give it attention")
        self.output.attach(self.decoder.output_size, self.decoder.input_deviation)

    def prepared_output(self, batch: Batch) -> dict[str, Tensor]:
        """What the output reads of a batch, for the memory."""
        return {f"output.{name}": tensor for name, tensor in self.output.prepare(batch).items()}

    @property
    def max_length(self) -> int | None:
        """How many steps a target can have, where the decoder knows no more positions; None: any number."""
        return self.decoder.longest

    @property
    def attends_to(self) -> Literal["source", "past"] | None:
        """What the attention weights of a step are about; None: there are none."""
        return self.decoder.attends_to

    @property
    def per_step(self) -> Sequence[nn.Module]:
        """What works at every step of a search, on a row for each beam."""
        return self.decoder, self.output

    @property
    def longest_source(self) -> int | None:
        """How many steps a source can have, where the encoder knows no more positions; None: any number."""
        return None

    def encode(self, batch: Batch, *, probe: Probe = silent) -> Memory:
        """Everything that is fixed once the batch's sources are known."""
        raise NotImplementedError

    def initial_state(self, memory: Memory) -> DecoderState:
        """The state before the first step, one row per sentence."""
        raise NotImplementedError

    def step(self, last: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = silent) -> DecoderOutput:
        """One step: ``last`` is what came before, one per row; a sentence's beams are adjacent rows."""
        e_RE = self.inputs.beside(self.output.feed(last)[:, None], state, memory)[:, 0]
        decoded = self.decoder.step(e_RE, state, memory, probe=within(probe, "decoder."))
        self.inputs.advance(state, decoded.state, 1)
        return decoded

    def forward(
        self,
        inputs: Tensor,
        memory: Memory,
        state: DecoderState | None = None,
        *,
        attention: bool = False,
        probe: Probe = silent,
    ) -> DecoderOutput:
        """All steps of a known target, from a state on; ``inputs`` is what is fed, B T …

        attention: whether its weights are wanted, where there are any.
        """
        state = self.initial_state(memory) if state is None else state
        e_BTE = self.inputs.beside(self.output.feed(inputs), state, memory)
        decoded: DecoderOutput = self.decoder(
            e_BTE, state, memory, attention=attention, probe=within(probe, "decoder.")
        )
        self.inputs.advance(state, decoded.state, inputs.shape[1])
        return decoded

    def next_log_probs(self, last: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = silent) -> NextStep:
        """The log-probabilities of what follows ``last``, one row per beam."""
        output = self._categorical  # asked first: tokens can't be fed to another
        decoded = self.step(last, state, memory, probe=probe)
        return NextStep(output.log_probs(decoded, memory), decoded.attention, decoded.state)

    def log_probs(self, target: Padded, memory: Memory) -> Iterator[Tensor]:
        """The log-probabilities of all tokens at the steps of a known target, B t V, a few steps at a time."""
        output = self._categorical
        inputs = shift(output.start(memory), target)
        decoded = self(inputs, memory, attention=output.needs_attention)
        B, T = target.mask.shape
        for start in range(0, T, chunk := max(1, ROWS // B)):
            yield output.log_probs(decoded.as_rows(start, start + chunk), memory).view(B, min(chunk, T - start), -1)

    @property
    def _categorical(self) -> Categorical:
        if not isinstance(self.output, Categorical):
            raise OptionError("this model writes values that are not tokens: there is nothing to search or to score")
        return self.output

    def loss(self, batch: Batch, *, probe: Probe = silent) -> Loss:
        """The loss of a batch under teacher forcing."""
        if batch.target is None:
            raise InputError("a loss needs a target, and this batch has none")
        memory = self.encode(batch, probe=probe)
        inputs = shift(self.output.start(memory), batch.target)
        decoded = self(inputs, memory, attention=self.output.needs_attention, probe=probe)
        return self.output.loss(decoded, memory, batch.target)


def empty_memory(rows: int, like: Tensor) -> dict[str, Tensor]:
    """The memory of a model without a source: values of no steps."""
    return {
        "values": like.new_zeros(rows, 0, 0),
        "mask": torch.zeros(rows, 0, dtype=torch.bool, device=like.device),
    }
