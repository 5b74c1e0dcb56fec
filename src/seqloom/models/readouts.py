"""Readouts: from a recurrent decoder's state and context to the features that the output layer reads."""

from typing import cast

import torch
from torch import Tensor, nn

from seqloom.nn.add import Add, add
from seqloom.registry import register


class Readout(nn.Module):
    """Features from y (the embedding of the previous token), the state s and the context a: f = φ(W [y; s; a] + b).

    A subclass defines which of them it concatenates (``combine``), and φ (``activate``); ``linear`` may be None.

    output_size: size of the features.
    uses_context: whether the features depend on a.
    uses_state: whether the features depend on s other than through a.
    """

    output_size: int
    uses_context: bool = True
    uses_state: bool = True

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__()
        self.context_size = context_size
        self.linear: nn.Linear | None = None

    def combine(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        """The input of the linear layer; without a linear layer, of φ."""
        raise NotImplementedError

    def activate(self, z: Tensor) -> Tensor:
        """φ: from the linear layer's output to the features."""
        return z

    @property
    def context_weight(self) -> Tensor:
        """The columns of W that multiply a: the last ones."""
        assert self.linear is not None
        return self.linear.weight[:, -self.context_size :]

    def forward(self, y: Tensor, s: Tensor, a: Tensor | None, add: Add = add, *, folded: bool = False) -> Tensor:
        """The features.

        folded: whether ``a`` already contains W_a a, as its last entries, in place of the context.
        """
        if self.linear is None:
            return self.activate(self.combine(y, s, a))
        W, b = self.linear.weight, cast(Tensor | None, self.linear.bias)
        if not folded or a is None or not self.uses_context:
            return self.activate(add(W, self.combine(y, s, a), b))
        known = a[..., -len(W) :] if b is None else a[..., -len(W) :] + b
        return self.activate(add(W[:, : -self.context_size], self.combine(y, s, a[..., :0]), known))


@register("readout", "state")
class StateReadout(Readout):
    """The decoder state alone: f = s."""

    uses_context = False

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__(input_size, state_size, context_size)
        self.output_size = state_size

    def combine(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        return s


@register("readout", "sum")
class SumReadout(Readout):
    """State and context concatenated, so that the output layer adds both: logits = W_out s + W_att a.

    The features are f = [s; a], and [W_out W_att] is the output's one matrix.
    """

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__(input_size, state_size, context_size)
        self.output_size = state_size + context_size

    def combine(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        assert a is not None
        return torch.cat((s, a), -1)


@register("readout", "tanh")
class TanhReadout(Readout):
    """A tanh layer on state and context: f = tanh(W [s; a]).

    The attentional vector of Luong et al. 2015.
    """

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__(input_size, state_size, context_size)
        self.output_size = state_size
        self.linear = nn.Linear(state_size + context_size, state_size, bias=False)
        nn.init.xavier_uniform_(self.linear.weight)

    def combine(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        assert a is not None
        return torch.cat((s, a), -1)

    def activate(self, z: Tensor) -> Tensor:
        return torch.tanh(z)


@register("readout", "context")
class ContextReadout(Readout):
    """The context alone: f = a."""

    uses_state = False

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__(input_size, state_size, context_size)
        self.output_size = context_size

    def combine(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        assert a is not None
        return a


@register("readout", "deep")
class DeepReadout(Readout):
    """Deep output, a maxout layer on previous token, state and context: f = max over pairs of (V y + U s + C a + b).

    Cho et al. 2014 and Bahdanau et al. 2015. The appendix of the latter has s_{t−1} where its main text has s_t; this
    layer reads s_t. Maxout: Goodfellow et al. 2013.
    """

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__(input_size, state_size, context_size)
        self.output_size = state_size
        self.linear = nn.Linear(input_size + state_size + context_size, 2 * state_size)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def combine(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        assert a is not None
        return torch.cat((y, s, a), -1)

    def activate(self, z: Tensor) -> Tensor:
        return torch.maximum(*z.chunk(2, -1))
