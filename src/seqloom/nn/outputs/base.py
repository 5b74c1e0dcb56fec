"""What an output is."""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.nn.memory import Memory, Step


class Loss(NamedTuple):
    """A loss summed over what is real, and over how many: kept apart, so that sums of batches stay exact.

    plain: −Σ log p of what is right, where training smooths its targets: what a perplexity is made of; no gradient.
    """

    total: Tensor
    steps: Tensor
    plain: Tensor

    @property
    def mean(self) -> Tensor:
        """The loss per real step."""
        return self.total / self.steps


class Output(nn.Module):
    """What comes out of a decoder, how it is judged, and how it goes in again.

    A decoder is made for what an output feeds it, and an output reads what the decoder gives: so an output is made
    first, with its ``input_size``, and attached to the decoder's features afterwards.

    input_size: of what ``feed`` gives the decoder.
    """

    input_size: int

    needs_weights: ClassVar[bool] = False
    """Whether ``loss`` and ``log_probs`` read the weights of attention."""

    def attach(self, feature_size: int, fed_deviation: float) -> None:
        """Make what reads features of this size, and have what is fed, where it is learned, begin with a standard
        deviation.
        """
        raise NotImplementedError

    def shift(self, target_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """What is fed for a known target: the start, then each step's predecessor."""
        raise NotImplementedError

    def start(self, memory: Memory) -> Tensor:
        """What is fed before anything is known, one per sentence."""
        raise NotImplementedError

    def feed(self, value: Tensor) -> Tensor:
        """A value as the decoder's next input."""
        raise NotImplementedError

    def loss(
        self, features_BTH: Tensor, weights_BTS: Tensor | None, memory: Memory, target: Tensor, mask_BT: Tensor
    ) -> Loss:
        """How far the features are from the target, over its real steps."""
        raise NotImplementedError

    def log_probs(self, step: Step, memory: Memory) -> Tensor:
        """The log-probability of every next value, R V."""
        raise NotImplementedError

    def sample(self, step: Step, memory: Memory, generator: torch.Generator | None = None) -> Tensor:
        """One value per row, drawn from the model's distribution."""
        raise NotImplementedError
