"""What an output is."""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.batch import Batch, Padded
from seqloom.nn.memory import DecoderOutput, Memory


class Loss(NamedTuple):
    """A loss summed over the real steps, and how many they are: kept apart, so that sums over batches stay exact.

    total: what is trained.
    steps: how many real steps it is summed over.
    shown: the loss to show to people, summed over the same steps: without label smoothing or other terms that only
        help training. It has no gradient.
    """

    total: Tensor
    steps: Tensor
    shown: Tensor

    @property
    def mean(self) -> Tensor:
        """The loss per real step."""
        return self.total / self.steps


class Output(nn.Module):
    """What comes out of a decoder, its loss, and how it is fed back.

    A decoder is made for what an output feeds it, and an output reads what the decoder gives: so an output is made
    first, with its ``input_size``, and attached to the decoder's features afterwards.

    input_size: of what ``feed`` gives the decoder.
    """

    input_size: int

    needs_attention: ClassVar[bool] = False
    """Whether ``loss`` and ``log_probs`` read the attention weights."""
    reads: ClassVar[tuple[str, ...]] = ()
    """The further fields of the batch that ``prepare`` reads, which the data must have."""

    def attach(self, feature_size: int, fed_deviation: float) -> None:
        """Make what reads features of this size, and have what is fed, where it is learned, begin with a standard
        deviation.
        """
        raise NotImplementedError

    def prepare(self, batch: Batch) -> dict[str, Tensor]:
        """What it reads of a batch beside the target, by name, sentence first: ``output.NAME`` in the memory."""
        return {}

    def start(self, memory: Memory) -> Tensor:
        """What is fed at the first step, one per sentence."""
        raise NotImplementedError

    def feed(self, value: Tensor) -> Tensor:
        """Values as the decoder's next inputs."""
        raise NotImplementedError

    def loss(self, decoded: DecoderOutput, memory: Memory, target: Padded) -> Loss:
        """How far the features B T H are from the target, over its real steps."""
        raise NotImplementedError

    def sample(
        self,
        decoded: DecoderOutput,
        memory: Memory,
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """One value per row, drawn from the model's distribution; at temperature 0, its mode."""
        raise NotImplementedError

    def ended(self, value: Tensor) -> Tensor | None:
        """Which rows end with these values; None: only the length ends a sequence."""
        return None


class Categorical(Output):
    """An output that chooses one of finitely many tokens: what every search works on."""

    def log_probs(self, decoded: DecoderOutput, memory: Memory) -> Tensor:
        """The log-probability of every next token, R V; a fresh tensor. V may exceed the vocabulary (copying)."""
        raise NotImplementedError

    def sample(
        self,
        decoded: DecoderOutput,
        memory: Memory,
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        log_probs_RV = self.log_probs(decoded, memory)
        if temperature == 0:
            return log_probs_RV.argmax(-1)
        probs_RV = torch.softmax(log_probs_RV / temperature, -1)
        return torch.multinomial(probs_RV, 1, generator=generator).squeeze(1)
