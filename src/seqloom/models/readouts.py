"""Readouts: from a recurrent decoder's state and context to the features that an output reads."""

from typing import cast

import torch
from torch import Tensor, nn

from seqloom.nn.add import Add, add
from seqloom.registry import register


class Readout(nn.Module):
    """Features from y (the embedding of what came before), the state s and the context a: f = react(W [y; s; a] + b).

    A readout says what is joined, and has a ``linear`` layer on it or none.

    output_size: of the features.
    uses_context: whether they depend on a.
    uses_state: whether they depend on s but through a.
    """

    output_size: int
    uses_context: bool = True
    uses_state: bool = True

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__()
        self.context_size = context_size
        self.linear: nn.Linear | None = None

    def join(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        """What the linear layer reads; without one, the features."""
        raise NotImplementedError

    def react(self, z: Tensor) -> Tensor:
        """From the linear layer's result to the features."""
        return z

    @property
    def context_weight(self) -> Tensor:
        """The columns of W that multiply a: the last."""
        assert self.linear is not None
        return self.linear.weight[:, -self.context_size :]

    def forward(self, y: Tensor, s: Tensor, a: Tensor | None, add: Add = add, *, folded: bool = False) -> Tensor:
        """The features.

        folded: a is not the context but ends with what W makes of it, W_a a.
        """
        if self.linear is None:
            return self.react(self.join(y, s, a))
        W, b = self.linear.weight, cast(Tensor | None, self.linear.bias)
        if not folded or a is None or not self.uses_context:
            return self.react(add(W, self.join(y, s, a), b))
        known = a[..., -len(W) :] if b is None else a[..., -len(W) :] + b
        return self.react(add(W[:, : -self.context_size], self.join(y, s, a[..., :0]), known))


@register("readout", "state")
class StateReadout(Readout):
    """The state alone: f = s."""

    uses_context = False

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__(input_size, state_size, context_size)
        self.output_size = state_size

    def join(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        return s


@register("readout", "sum")
class SumReadout(Readout):
    """The context joined at the output: logits = W_out s + W_att a.

    That is the output's one matrix [W_out W_att] on f = [s; a].
    """

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__(input_size, state_size, context_size)
        self.output_size = state_size + context_size

    def join(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        assert a is not None
        return torch.cat((s, a), -1)


@register("readout", "tanh")
class TanhReadout(Readout):
    """One tanh layer on state and context: f = tanh(W [s; a]).

    The attentional vector of Luong et al. 2015.
    """

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__(input_size, state_size, context_size)
        self.output_size = state_size
        self.linear = nn.Linear(state_size + context_size, state_size, bias=False)
        nn.init.xavier_uniform_(self.linear.weight)

    def join(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        assert a is not None
        return torch.cat((s, a), -1)

    def react(self, z: Tensor) -> Tensor:
        return torch.tanh(z)


@register("readout", "context")
class ContextReadout(Readout):
    """The context in place of the state: f = a."""

    uses_state = False

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__(input_size, state_size, context_size)
        self.output_size = context_size

    def join(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        assert a is not None
        return a


@register("readout", "deep")
class DeepReadout(Readout):
    """A maxout layer on all there is: f = max over pairs of (V y + U s + C a + b).

    The deep output of Cho et al. 2014 and Bahdanau et al. 2015 (whose appendix once writes s_{t−1}, where its main
    text has s_t; this is s_t). Maxout: Goodfellow et al. 2013.
    """

    def __init__(self, input_size: int, state_size: int, context_size: int) -> None:
        super().__init__(input_size, state_size, context_size)
        self.output_size = state_size
        self.linear = nn.Linear(input_size + state_size + context_size, 2 * state_size)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def join(self, y: Tensor, s: Tensor, a: Tensor | None) -> Tensor:
        assert a is not None
        return torch.cat((y, s, a), -1)

    def react(self, z: Tensor) -> Tensor:
        return torch.maximum(*z.chunk(2, -1))
