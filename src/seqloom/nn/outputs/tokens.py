"""Softmax output over a vocabulary of tokens."""

from typing import ClassVar

import torch
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.batch import BOS, EOS, Padded
from seqloom.errors import ConfigError, ShapeError
from seqloom.nn.embedding import Embedding, TokenEmbedding, ids_out_of_range
from seqloom.nn.memory import DecoderOutput, Memory
from seqloom.nn.outputs.base import Categorical, Loss
from seqloom.nn.outputs.cross_entropy import linear_cross_entropy
from seqloom.registry import Fraction, register


@register("output", "tokens")
class TokenOutput(Categorical):
    """Token output: softmax over the vocabulary, trained with cross-entropy.

        p_t = softmax(W f_t + b)
        loss = −Σ_t log p_t[y_t], over all y_t except padding, including EOS
        with label smoothing: −Σ_t ((1 − ε) log p_t[y_t] + ε/V Σ_v log p_t[v])

    vocabulary: V, the vocabulary size.

    embedding_size: size of target embeddings, the decoder inputs.
    dropout: dropout probability of target embeddings.
    embedding_noise: standard deviation of Gaussian noise added to target embeddings in training; 0 adds none.
    word_dropout: probability of replacing an input token of the decoder by UNK in training (Bowman et al. 2016); 0
        disables it.
    tie_output_embeddings: weight tying: use the target embedding matrix as W (Press and Wolf 2017); decoder features
        must have the embedding size.
    label_smoothing: label smoothing ε in training (Szegedy et al. 2016); 0 disables it.
    """

    uncompiled: ClassVar[tuple[str, ...]] = ("loss",)
    """``loss`` defines its own gradient and is already a few large matrix multiplications."""

    def __init__(
        self,
        vocabulary: int,
        *,
        embedding_size: PositiveInt = 256,
        dropout: Fraction = 0.0,
        embedding_noise: NonNegativeFloat = 0.0,
        word_dropout: Fraction = 0.0,
        tie_output_embeddings: bool = False,
        label_smoothing: Fraction = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= label_smoothing < 1:
            raise ConfigError(
                f"output 'tokens': label_smoothing={label_smoothing} is invalid: it must be at least 0 and below 1"
            )
        self.input_size = embedding_size
        self.label_smoothing = label_smoothing
        self.embedding = Embedding(vocabulary, embedding_size)
        self.embedded = TokenEmbedding(dropout=dropout, embedding_noise=embedding_noise, word_dropout=word_dropout)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.tie_output_embeddings = tie_output_embeddings

    def set_feature_size(self, feature_size: int, embedding_init_std: float) -> None:
        self.embedded.set_init_std(embedding_init_std, self.input_size)
        if not self.tie_output_embeddings:
            # The Glorot variance would depend on the vocabulary size: so small that the model learns nothing for
            # hundreds of updates. Tied embeddings have the same variance as this, 1/size.
            weight = torch.empty(len(self.bias), feature_size, device=self.bias.device)
            self.weight = nn.Parameter(weight.normal_(std=feature_size**-0.5))
        elif feature_size != self.input_size:
            raise ShapeError(
                f"output 'tokens': tie_output_embeddings needs decoder features of the embedding size, "
                f"{self.input_size}, but they have size {feature_size}: make the sizes equal, or set "
                "output.tie_output_embeddings to false"
            )

    @property
    def output_weight(self) -> Tensor:
        """W, V H."""
        return self.embedding.weight if self.tie_output_embeddings else self.weight

    def logits(self, features: Tensor) -> Tensor:
        """W f + b, … V."""
        return F.linear(features, self.output_weight, self.bias)

    def start(self, memory: Memory) -> Tensor:
        return torch.full((memory.rows,), BOS, device=memory.mask.device)

    def feed(self, value: Tensor) -> Tensor:
        return self.embedded(value, self.embedding)  # type: ignore[no-any-return]

    def ended(self, value: Tensor) -> Tensor:
        return value == EOS

    def loss(self, decoded: DecoderOutput, memory: Memory, target: Padded) -> Loss:
        real = target.mask.flatten().nonzero().squeeze(1)  # logits are expensive: skip padding
        features_XH = decoded.features.flatten(0, 1).index_select(0, real)
        target_X = target.values.flatten().index_select(0, real)
        smoothing = self.label_smoothing if self.training else 0.0  # evaluation uses the true likelihood
        try:
            total, nll = linear_cross_entropy(features_XH, self.output_weight, self.bias, target_X, smoothing)
        except (IndexError, RuntimeError):
            if target_X.min() >= 0 and target_X.max() < len(self.bias):
                raise
            raise ids_out_of_range(target_X, len(self.bias)) from None
        return Loss(total, target.mask.sum(), nll)

    def log_probs(self, decoded: DecoderOutput, memory: Memory) -> Tensor:
        z_RV = self.logits(decoded.features)
        return torch.log_softmax(z_RV, -1, out=None if z_RV.requires_grad else z_RV)
