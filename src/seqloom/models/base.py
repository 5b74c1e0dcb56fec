"""What an encoder–decoder and a language model have in common."""

from torch import Tensor, nn

from seqloom.batch import Batch
from seqloom.errors import InputError
from seqloom.models.decoders import Decoder
from seqloom.nn.memory import Decoded, Memory, State, Step
from seqloom.nn.outputs import Loss, Output
from seqloom.nn.probe import Probe, silent, within


class Autoregressive(nn.Module):
    """A model that writes a target step by step, each step seeing those before it.

    ``prepare(batch) → Memory``, ``start(memory) → State``, ``step(last, state, memory) → Step`` for one step of any
    number of beams, and ``forward(inputs, memory)`` for a whole known target; ``step`` repeated is ``forward``.
    """

    decoder: Decoder
    output: Output

    @property
    def longest_source(self) -> int | None:
        """How many tokens a source can have, where the encoder knows no more positions; None: any number."""
        return None

    def prepare(self, batch: Batch, *, probe: Probe = silent) -> Memory:
        """All that is fixed for the batch's sources, made once."""
        raise NotImplementedError

    def start(self, memory: Memory) -> State:
        """The state before the first step, one row per sentence."""
        raise NotImplementedError

    def step(self, last: Tensor, state: State, memory: Memory, *, probe: Probe = silent) -> Step:
        """One step: ``last`` is what came before, one per row; a sentence's beams are adjacent rows."""
        return self.decoder.step(self.output.feed(last), state, memory, probe=within(probe, "decoder"))

    def forward(self, inputs: Tensor, memory: Memory, *, weights: bool = False, probe: Probe = silent) -> Decoded:
        """All steps of a known target, ``inputs`` being what is fed; ``weights``: show attention's, if it can."""
        e_BTE = self.output.feed(inputs)
        probe = within(probe, "decoder")
        decoded: Decoded = self.decoder(e_BTE, self.start(memory), memory, weights=weights, probe=probe)
        return decoded

    def loss(self, batch: Batch, *, probe: Probe = silent) -> Loss:
        """The loss of a batch under teacher forcing."""
        if batch.target is None:
            raise InputError("a loss needs a target, and this batch has none")
        memory = self.prepare(batch, probe=probe)
        inputs = self.output.shift(*batch.target)
        decoded = self(inputs, memory, weights=self.output.needs_weights, probe=probe)
        return self.output.loss(decoded.features, decoded.weights, memory, *batch.target)
