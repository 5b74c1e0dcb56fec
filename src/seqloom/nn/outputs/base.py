"""Base classes of outputs, and the loss."""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.batch import Batch, Padded
from seqloom.nn.memory import DecoderOutput, Memory


class Loss(NamedTuple):
    """A loss, summed over the non-padding steps, and their number; separate, so that sums over batches are exact.

    total: the loss to minimize.
    steps: number of non-padding steps it is summed over.
    reported: the loss to report, summed over the same steps, without label smoothing or other terms that are used in
        training only. It has no gradient.
    """

    total: Tensor
    steps: Tensor
    reported: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean loss per non-padding step."""
        return self.total / self.steps


class Output(nn.Module):
    """The output layer: maps decoder features to a distribution, computes the loss, and embeds outputs as inputs.

    Decoder and output depend on each other's sizes. So the output is built first; the decoder is built with its
    ``input_size``; then ``set_feature_size`` completes the output.

    input_size: size of the vectors that ``feed`` returns, the decoder inputs.
    """

    input_size: int

    needs_attention: ClassVar[bool] = False
    """Whether ``loss`` and ``log_probs`` read the attention weights."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Additional fields of the batch that ``prepare_memory`` reads; the data must have them."""

    def set_feature_size(self, feature_size: int, embedding_init_std: float) -> None:
        """Create the layers that read features of this size.

        embedding_init_std: initial standard deviation of the vectors that ``feed`` returns, if they are learned.
        """
        raise NotImplementedError

    def prepare_memory(self, batch: Batch) -> dict[str, Tensor]:
        """Tensors it needs of a batch besides the target, by name, B first: ``output.NAME`` in the memory."""
        return {}

    def start(self, memory: Memory) -> Tensor:
        """The value to feed at the first step, such as BOS, one per sentence."""
        raise NotImplementedError

    def feed(self, value: Tensor) -> Tensor:
        """Values, such as token ids, as the next decoder inputs."""
        raise NotImplementedError

    def loss(self, decoded: DecoderOutput, memory: Memory, target: Padded) -> Loss:
        """The loss of features B T H on the target, over its non-padding steps."""
        raise NotImplementedError

    def sample(
        self,
        decoded: DecoderOutput,
        memory: Memory,
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """One value per row, sampled from the model's distribution; at temperature 0, the most likely one."""
        raise NotImplementedError

    def ended(self, value: Tensor) -> Tensor | None:
        """Rows whose sequence ends with this value, such as EOS; None: only the maximum length ends a sequence."""
        return None


class Categorical(Output):
    """An output with a finite vocabulary; every decoding strategy works on these."""

    def log_probs(self, decoded: DecoderOutput, memory: Memory) -> Tensor:
        """Log-probabilities of the next token, R V, in a new tensor. V may exceed the vocabulary size (copying)."""
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
