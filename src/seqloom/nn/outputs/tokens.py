"""Tokens out."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.batch import END, START, Padded
from seqloom.errors import OptionError, SizeError
from seqloom.nn.embedding import Deviation, Embedded, Embedding, outside_vocabulary
from seqloom.nn.memory import DecoderOutput, Memory
from seqloom.nn.outputs.base import Categorical, Loss
from seqloom.nn.outputs.cross_entropy import linear_cross_entropy
from seqloom.registry import Count, Share, register


@register("output", "tokens")
class TokenOutput(Categorical):
    """Tokens by a softmax over the vocabulary, judged by cross-entropy.

        p_t = softmax(W f_t + b)
        loss = −Σ_t log p_t[y_t], over the real y_t, END included
        smoothed by ε: −Σ_t ((1 − ε) log p_t[y_t] + ε/V Σ_v log p_t[v])

    vocabulary: V.

    size: of a target embedding, which is what is fed back.
    dropout: on target embeddings.
    noise: the standard deviation of Gaussian noise on target embeddings, in training.
    word_dropout: the share of fed tokens that training replaces by the unknown one (Bowman et al. 2016).
    tied: W *is* the table of target embeddings (Press and Wolf 2017); f must have their size.
    label_smoothing: ε (Szegedy et al. 2016), in training only.
    """

    uncompiled: ClassVar[tuple[str, ...]] = ("loss",)
    """It has its own gradient, and is made of few large products already."""

    def __init__(
        self,
        vocabulary: int,
        *,
        size: Count = 256,
        dropout: Share = 0.0,
        noise: Deviation = 0.0,
        word_dropout: Share = 0.0,
        tied: bool = False,
        label_smoothing: Share = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= label_smoothing < 1:
            raise OptionError(f"output 'tokens': label_smoothing={label_smoothing} must be at least 0 and below 1")
        self.input_size = size
        self.label_smoothing = label_smoothing
        self.embedding = Embedding(vocabulary, size)
        self.embedded = Embedded(dropout=dropout, noise=noise, word_dropout=word_dropout)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.tied = tied

    def attach(self, feature_size: int, fed_deviation: float) -> None:
        self.embedded.begin_with(fed_deviation, self.input_size)
        if not self.tied:
            # Glorot's variance would be that of a layer as wide as the vocabulary: so small that nothing is learned
            # from logits for hundreds of updates. A tied table has this one, too.
            weight = torch.empty(len(self.bias), feature_size, device=self.bias.device)
            self.weight = nn.Parameter(weight.normal_(std=feature_size**-0.5))
        elif feature_size != self.input_size:
            raise SizeError(
                f"tied embeddings of size {self.input_size} can't read features of size {feature_size}: "
                "make them equal, or set output: tied: false"
            )

    @property
    def output_weight(self) -> Tensor:
        """W."""
        return self.embedding.weight if self.tied else self.weight

    def logits(self, features: Tensor) -> Tensor:
        """W f + b."""
        return F.linear(features, self.output_weight, self.bias)

    def start(self, memory: Memory) -> Tensor:
        return torch.full((memory.rows,), START, device=memory.mask.device)

    def feed(self, value: Tensor) -> Tensor:
        return self.embedded(value, self.embedding)  # type: ignore[no-any-return]

    def ended(self, value: Tensor) -> Tensor:
        return value == END

    def loss(self, decoded: DecoderOutput, memory: Memory, target: Padded) -> Loss:
        real = target.mask.flatten().nonzero().squeeze(1)  # logits are the largest product: only for real steps
        features_XH = decoded.features.flatten(0, 1).index_select(0, real)
        target_X = target.values.flatten().index_select(0, real)
        smoothing = self.label_smoothing if self.training else 0.0  # what is evaluated is the model, not its training
        try:
            total, shown = linear_cross_entropy(features_XH, self.output_weight, self.bias, target_X, smoothing)
        except (IndexError, RuntimeError):
            if target_X.min() >= 0 and target_X.max() < len(self.bias):
                raise
            raise outside_vocabulary(target_X, len(self.bias)) from None
        return Loss(total, target.mask.sum(), shown)

    def log_probs(self, decoded: DecoderOutput, memory: Memory) -> Tensor:
        z_RV = self.logits(decoded.features)
        return torch.log_softmax(z_RV, -1, out=None if z_RV.requires_grad else z_RV)
