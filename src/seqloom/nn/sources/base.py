"""What a source is."""

from torch import Tensor, nn


class Source(nn.Module):
    """Raw input to vectors, B S … → B S E, for an encoder to put in context.

    output_size: E.
    reverse: whether the encoder reads every source from its end to its beginning.
    """

    output_size: int
    reverse: bool = False

    def begin_with(self, deviation: float) -> None:
        """Have the vectors begin with a standard deviation that suits the encoder, where they are learned."""

    def forward(self, source: Tensor) -> Tensor:
        raise NotImplementedError
