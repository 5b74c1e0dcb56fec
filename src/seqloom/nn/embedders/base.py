"""Base class of embedders."""

from torch import nn

from seqloom.batch import Padded


class Embedder(nn.Module):
    """Maps raw input to vectors, B N … → B M E; M may differ from N, as with subsampling.

    output_size: E, the embedding size.
    reverse: whether an encoder reads the steps from last to first.
    """

    output_size: int
    reverse: bool = False

    def set_init_std(self, std: float) -> None:
        """Set the initial standard deviation of the vectors, if they are learned."""

    def forward(self, given: Padded) -> Padded:
        raise NotImplementedError
