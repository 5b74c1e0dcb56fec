"""The base class of encoder–decoders and language models."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from seqloom.batch import Batch, Padded, shift
from seqloom.errors import ConfigError, InputError
from seqloom.models.decoders import Decoder
from seqloom.models.inputs import Inputs
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory, NextStep
from seqloom.nn.outputs import Categorical, Loss, Output
from seqloom.nn.probe import Probe, no_probe, scoped

MAX_ROWS = 512
"""The maximum number of rows of log-probabilities over the whole vocabulary that ``log_probs`` computes at a time."""


class Autoregressive(nn.Module):
    """A model that generates a target step by step, each step conditioned on those before it.

    Calling ``step`` repeatedly gives the same features as ``forward`` on the whole target. Search and scoring use
    only ``encode``, ``initial_state``, ``next_log_probs``, ``log_probs``, ``max_length`` and ``attends_to``. A model
    without a ``decoder`` implements ``encode``, ``initial_state``, ``step``, ``forward`` and the properties itself.
    """

    decoder: Decoder
    output: Output
    inputs: Inputs

    has_source: ClassVar[bool] = True
    """Whether the model reads a source. ``seqloom train`` requires one."""

    def attach_output(self) -> None:
        """Give the output the size of the decoder's features; an output may also require attention weights."""
        if self.output.needs_attention and self.decoder.attends_to is None:
            raise ConfigError("the output reads attention weights, but the decoder has none: use one with attention")
        self.output.set_feature_size(self.decoder.output_size, self.decoder.embedding_init_std)

    def prepare_output(self, batch: Batch) -> dict[str, Tensor]:
        """The memory entries of the output, ``output.NAME``: what it reads of the batch besides the target."""
        return {f"output.{name}": tensor for name, tensor in self.output.prepare_memory(batch).items()}

    @property
    def max_length(self) -> int | None:
        """The maximum number of target tokens, if the decoder's positions are limited; None: no limit."""
        return self.decoder.max_length

    @property
    def attends_to(self) -> Literal["source", "past"] | None:
        """Whether attention weights refer to the ``source`` or to the ``past``; None: the model has no attention."""
        return self.decoder.attends_to

    @property
    def per_step(self) -> Sequence[nn.Module]:
        """The modules that run at every step of a search, on one row per beam."""
        return self.decoder, self.output

    @property
    def max_source_length(self) -> int | None:
        """The maximum number of source tokens, if the encoder's positions are limited; None: no limit."""
        return None

    def encode(self, batch: Batch, *, probe: Probe = no_probe) -> Memory:
        """Compute everything that depends on the sources alone."""
        raise NotImplementedError

    def initial_state(self, memory: Memory) -> DecoderState:
        """The decoder's state before the first step, one row per sentence."""
        raise NotImplementedError

    def step(self, last: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = no_probe) -> DecoderOutput:
        """Run one step.

        last: the previous token of every row; the beams of a sentence are adjacent rows.
        """
        e_RE = self.inputs.join_target(self.output.feed(last)[:, None], state, memory)[:, 0]
        decoded = self.decoder.step(e_RE, state, memory, probe=scoped(probe, "decoder."))
        self.inputs.advance(state, decoded.state, 1)
        return decoded

    def forward(
        self,
        inputs: Tensor,
        memory: Memory,
        state: DecoderState | None = None,
        *,
        attention: bool = False,
        probe: Probe = no_probe,
    ) -> DecoderOutput:
        """Run all steps of a known target (teacher forcing).

        inputs: B T …, the token that is fed at every step: the previous one.
        state: the state to start from; by default the initial state.
        attention: whether to return attention weights, if the decoder has any.
        """
        state = self.initial_state(memory) if state is None else state
        e_BTE = self.inputs.join_target(self.output.feed(inputs), state, memory)
        decoded: DecoderOutput = self.decoder(
            e_BTE, state, memory, attention=attention, probe=scoped(probe, "decoder.")
        )
        self.inputs.advance(state, decoded.state, inputs.shape[1])
        return decoded

    def next_log_probs(
        self, last: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = no_probe
    ) -> NextStep:
        """The log-probabilities of the token after ``last``, R V, one row per beam."""
        output = self._categorical  # checked first: other outputs can't embed tokens
        decoded = self.step(last, state, memory, probe=probe)
        return NextStep(output.log_probs(decoded, memory), decoded.attention, decoded.state)

    def log_probs(self, target: Padded, memory: Memory) -> Iterator[Tensor]:
        """Yield the log-probabilities of all tokens at every step of a known target, B t V for t steps at a time."""
        output = self._categorical
        inputs = shift(output.start(memory), target)
        decoded = self(inputs, memory, attention=output.needs_attention)
        B, T = target.mask.shape
        for start in range(0, T, chunk := max(1, MAX_ROWS // B)):
            yield output.log_probs(decoded.as_rows(start, start + chunk), memory).view(B, min(chunk, T - start), -1)

    @property
    def _categorical(self) -> Categorical:
        if not isinstance(self.output, Categorical):
            raise ConfigError("the model's output is not a distribution over tokens: it can't be searched or scored")
        return self.output

    def loss(self, batch: Batch, *, probe: Probe = no_probe) -> Loss:
        """The loss of a batch under teacher forcing."""
        if batch.target is None:
            raise InputError("the loss needs a target, but this batch has none")
        memory = self.encode(batch, probe=probe)
        inputs = shift(self.output.start(memory), batch.target)
        decoded = self(inputs, memory, attention=self.output.needs_attention, probe=probe)
        return self.output.loss(decoded, memory, batch.target)


def empty_memory(rows: int, like: Tensor) -> dict[str, Tensor]:
    """The memory of a model without a source: values of zero steps."""
    return {
        "values": like.new_zeros(rows, 0, 0),
        "mask": torch.zeros(rows, 0, dtype=torch.bool, device=like.device),
    }
