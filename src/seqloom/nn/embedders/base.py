"""What an embedder is."""

from torch import nn

from seqloom.batch import Padded


class Embedder(nn.Module):
    """Raw input to vectors, B N … → B M E; it may change the number of steps, as subsampling does.

    output_size: E.
    reverse: whether an encoder reads these steps from the last to the first.
    """

    output_size: int
    reverse: bool = False

    def begin_with(self, deviation: float) -> None:
        """Have the vectors begin with a standard deviation that suits their reader, where they are learned."""

    def forward(self, given: Padded) -> Padded:
        raise NotImplementedError
