"""A pointer–generator: out-of-vocabulary (OOV) words are copied from the source (See et al. 2017)."""

from typing import ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from seqloom import register
from seqloom.batch import UNK
from seqloom.data.fields import Field, Text
from seqloom.nn.memory import repeat_for_beams
from seqloom.nn.outputs import Loss
from seqloom.nn.outputs.tokens import TokenOutput


@register("field", "copying")
class Copying(Text):
    """Words in an extended vocabulary: an OOV word in the source has the id V + its first position there."""

    dtype = np.dtype(np.int32)

    def encode(self, values, examples):
        rows = super().encode(values, examples)
        for row, value, example in zip(rows, values, examples, strict=True):
            source = example["source"].split()
            for t, word in enumerate(value.split()):
                if row[t] == UNK and word in source:
                    row[t] = self.size + source.index(word)
        return rows

    def decode(self, row, example):
        source = example["source"].split()
        return " ".join(source[i - self.size] if i >= self.size else super(Copying, self).decode(row[[t]])
                        for t, i in enumerate(row.tolist()) if i > 2)  # fmt: skip

    def show(self, row):
        shown = super().show(np.where(row < self.size, row, UNK))
        return [f"↑{i - self.size}" if i >= self.size else word for i, word in zip(row.tolist(), shown, strict=True)]


@register("field", "first_positions")
class FirstPositions(Field):
    """The position of the first occurrence of each word: 0 1 0 for ``a b a``."""

    dtype = np.dtype(np.int32)
    size = 1

    def fit(self, values):
        pass

    def encode(self, values, examples):
        return [np.array([words.index(word) for word in words], self.dtype) for words in map(str.split, values)]

    def decode(self, row, example):
        return " ".join(self.show(row))

    def show(self, row):
        return [f"↑{i}" for i in row.tolist()]

    def metrics(self, values):
        return ("exact_match",)


@register("output", "pointer_generator")
class PointerGenerator(TokenOutput):
    """Pointer–generator: a mixture of a softmax over the vocabulary and the attention weights over source words.

        p_t(v) = g_t softmax(W f_t + b)_v + (1 − g_t) Σ_{s: x_s = v} a_ts,        g_t = σ(u f_t + c)

    Source and target share a vocabulary of V words. An out-of-vocabulary word x_s has the id V + its first position
    in the source, which the field ``copies`` provides.
    """

    needs_attention: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("copies",)

    def set_feature_size(self, feature_size, embedding_init_std):
        super().set_feature_size(feature_size, embedding_init_std)
        self.gate = nn.Linear(feature_size, 1)

    def prepare_memory(self, batch):
        word_BS, position_BS = batch.source.values, batch["copies"].values
        return {"copies": torch.where(word_BS == UNK, len(self.bias) + position_BS, word_BS)}

    def feed(self, value):
        return super().feed(value.masked_fill(value >= len(self.bias), UNK))

    def log_probs(self, decoded, memory):
        copies_RS = repeat_for_beams(memory["output.copies"], len(decoded.features))
        g_R1 = torch.sigmoid(self.gate(decoded.features))
        p_RV = g_R1 * torch.softmax(self.logits(decoded.features), -1)
        p_RX = F.pad(p_RV, (0, copies_RS.shape[1])).scatter_add(1, copies_RS, (1 - g_R1) * decoded.attention)
        return p_RX.log()

    def loss(self, decoded, memory, target):
        B, T = target.mask.shape
        log_probs_BTX = self.log_probs(decoded.as_rows(0, T), memory).view(B, T, -1)
        total = -log_probs_BTX.gather(2, target.values[..., None])[target.mask].sum()
        return Loss(total, target.mask.sum(), total.detach())
