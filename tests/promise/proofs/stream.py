"""One long text, read in parallel lanes window by window, with the state carried over (Mikolov et al. 2010)."""

import torch

from seqloom import Batch, register
from seqloom.batch import Padded, shift
from seqloom.nn.memory import DecoderState
from seqloom.registry import Count
from seqloom.train.objectives import Objective


@register("objective", "truncated_backpropagation")
class TruncatedBackpropagation(Objective):
    """Every batch goes on where the one before it ended: its state is carried over, without its gradient."""

    def __call__(self, model, batch, *, update, carry=None):
        memory, target = model.encode(batch), batch.target
        state = None if carry is None else DecoderState(carry["state"])
        last = model.output.start(memory) if carry is None else carry["last"]
        decoded = model(shift(last, target), memory, state, attention=model.output.needs_attention)
        kept = {"state": {n: t.detach() for n, t in decoded.state.items()}, "last": target.values[:, -1]}
        return model.output.loss(decoded, memory, target), kept


@register("batcher", "lanes")
class Lanes:
    """All targets in a row as one text, cut into lanes of equal length that are read side by side.

    window: steps of every batch.
    """

    def __init__(self, corpus, size, seed, *, window: Count = 32):
        text = torch.cat([torch.as_tensor(corpus.row("target", n)).long() for n in range(len(corpus))])
        lanes, self.window = size.sentences, window
        self.text_LT = text[: len(text) // lanes * lanes].view(lanes, -1)

    def plan(self, epoch):
        """Where each window begins: in every epoch alike, as a text has one order."""
        return list(range(0, self.text_LT.shape[1], self.window))

    def target_steps(self, item):
        return self.collate(item)["target"].mask.sum().item()

    def collate(self, item):
        target = self.text_LT[:, item : item + self.window]
        return Batch({"target": Padded(target, torch.ones_like(target, dtype=torch.bool))})
