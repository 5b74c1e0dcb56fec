"""Truncated backpropagation through time: one long text in parallel lanes, window by window (Mikolov et al. 2010)."""

import torch
from pydantic import PositiveInt

from seqloom import Batch, register
from seqloom.batch import Padded, shift
from seqloom.nn.memory import DecoderState
from seqloom.train.objectives import Objective


@register("objective", "truncated_backpropagation")
class TruncatedBackpropagation(Objective):
    """Truncated backpropagation: each batch continues the previous one, whose state is carried over, detached."""

    def __call__(self, model, batch, *, update, carry=None):
        memory, target = model.encode(batch), batch.target
        state = None if carry is None else DecoderState(carry["state"])
        last = model.output.start(memory) if carry is None else carry["last"]
        decoded = model(shift(last, target), memory, state, attention=model.output.needs_attention)
        kept = {"state": {n: t.detach() for n, t in decoded.state.items()}, "last": target.values[:, -1]}
        return model.output.loss(decoded, memory, target), kept


@register("batcher", "lanes")
class Lanes:
    """Concatenate all targets into one text and split it into parallel lanes of equal length.

    window: number of steps per batch.
    """

    def __init__(self, corpus, size, seed, *, window: PositiveInt = 32):
        text = torch.cat([torch.as_tensor(corpus.row("target", n)).long() for n in range(len(corpus))])
        lanes, self.window = size.sentences, window
        self.text_LT = text[: len(text) // lanes * lanes].view(lanes, -1)

    def plan(self, epoch):
        """The start of each window, the same in every epoch, since the text has a fixed order."""
        return list(range(0, self.text_LT.shape[1], self.window))

    def target_steps(self, item):
        return self.collate(item)["target"].mask.sum().item()

    def collate(self, item):
        target = self.text_LT[:, item : item + self.window]
        return Batch({"target": Padded(target, torch.ones_like(target, dtype=torch.bool))})
