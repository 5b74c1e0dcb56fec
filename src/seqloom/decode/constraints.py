"""Constrained decoding: restrictions on the next token, which combine with each other and with every search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.batch import EOS, pad
from seqloom.errors import ConfigError, InputError, SentenceError, ShapeError

Phrase = Sequence[int]
Grammar = Callable[[Tensor], Tensor]
"""Maps the tokens so far, R T, to whether each token may follow, R V of bool; EOS where a hypothesis may end."""
NEG_INF = -torch.inf


@dataclass(frozen=True)
class TokenConstraints:
    """What hypotheses must start with, contain and avoid, as token ids.

    prefix: a forced prefix for each sentence; it takes precedence over all other constraints. Its tokens get their
        log-probabilities like any others.
    forbidden: phrases that never occur in a hypothesis.
    no_repeat_ngram_size: no n-gram of this many tokens occurs twice.
    repetition_penalty: θ (Keskar et al. 2019). The search uses q instead of the model's p: q_v ∝ p_v^θ if v has
        occurred, else q_v ∝ p_v. Hypotheses report p.
    grammar: maps the tokens so far to the tokens that may follow, for all rows at once, since it is called at every
        step.
    required: lexical constraints: phrases that every finished hypothesis contains, for each sentence; only in search
        ``beam``.
    numbers: numbers of the sentences in error messages; by default their indices in the batch.
    """

    prefix: Sequence[Phrase] | None = None
    forbidden: Sequence[Phrase] = ()
    no_repeat_ngram_size: int | None = None
    repetition_penalty: float = 1.0
    grammar: Grammar | None = None
    required: Sequence[Sequence[Phrase]] | None = None
    numbers: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.no_repeat_ngram_size is not None and self.no_repeat_ngram_size < 1:
            raise ConfigError(f"no_repeat_ngram_size={self.no_repeat_ngram_size} is invalid: it must be at least 1")
        if self.repetition_penalty <= 0:
            raise ConfigError(
                f"repetition_penalty={self.repetition_penalty} is invalid: it must be above 0; 1 disables it"
            )
        required = [phrase for phrases in self.required or () for phrase in phrases]
        for name, phrases in (("prefix", self.prefix or ()), ("forbidden", self.forbidden), ("required", required)):
            for phrase in phrases:
                if name != "prefix" and not len(phrase):
                    raise InputError(f"{name} contains an empty phrase: remove it")
                if any(token <= EOS for token in phrase):
                    raise InputError(
                        f"{name}: {list(phrase)} contains PAD, BOS or EOS, which can't occur in a hypothesis"
                    )

    @property
    def is_empty(self) -> bool:
        """Whether there are no constraints at all."""
        some = any(self.prefix or ()) or len(self.forbidden) > 0 or self.requires
        return not some and (self.no_repeat_ngram_size, self.repetition_penalty, self.grammar) == (None, 1, None)

    @property
    def requires(self) -> bool:
        """Whether any sentence has required phrases."""
        return any(len(phrases) for phrases in self.required or ())


class ConstraintMask:
    """Applies constraints to the log-probabilities of a batch."""

    def __init__(self, constraints: TokenConstraints, sentences: int, device: torch.device) -> None:
        self.constraints = constraints
        for name, entries in (("prefix", constraints.prefix), ("required", constraints.required)):
            if entries is not None and len(entries) != sentences:
                raise ShapeError(
                    f"constraints: {name} has {len(entries)} entries for {sentences} sentences: give one per sentence"
                )
        prefix_BP, mask_BP = pad(constraints.prefix or [[]] * sentences)
        self.prefix_BP, self.prefix_length_B = prefix_BP.to(device), mask_BP.sum(1).to(device)
        # Phrases are padded on the left, so that their last tokens are in one column; −1 matches any token.
        max_length = max((len(phrase) for phrase in constraints.forbidden), default=1)
        rows = [[-1] * (max_length - len(phrase)) + list(phrase) for phrase in constraints.forbidden]
        self.forbidden_FL = torch.tensor(rows, dtype=torch.long, device=device).view(-1, max_length)

    def check_lengths(self, max_length_B: Tensor) -> None:
        """Raise an error if a prefix or a required phrase is longer than the maximum length of its sentence."""
        required = self.constraints.required or [[]] * len(max_length_B)
        for name, lengths in (
            ("prefix", self.prefix_length_B.tolist()),
            ("required phrase", [max(map(len, phrases), default=0) for phrases in required]),
        ):
            numbers = range(len(max_length_B)) if self.constraints.numbers is None else self.constraints.numbers
            for sentence, length, max_length in zip(numbers, lengths, max_length_B.tolist(), strict=True):
                if length > max_length:
                    raise SentenceError(
                        f"its {name} has {length} tokens, but the maximum length is {max_length}: increase "
                        "max_length or max_length_ratio",
                        sentence,
                    )

    def __call__(self, log_probs_RV: Tensor, tokens_RT: Tensor, occupied_R: Tensor) -> Tensor:
        """The log-probabilities to search with, −∞ for tokens that may not follow; works in place.

        occupied_R: False for empty slots; the grammar is called without them, since it may be a user's function.
        """
        constraints = self.constraints
        if constraints.repetition_penalty != 1 and tokens_RT.shape[1]:
            repeated_RT = log_probs_RV.gather(1, tokens_RT) * constraints.repetition_penalty
            log_probs_RV = torch.log_softmax(log_probs_RV.scatter_(1, tokens_RT, repeated_RT), 1)
        if len(constraints.forbidden):
            forbid_phrases(log_probs_RV, tokens_RT, self.forbidden_FL)
        if constraints.no_repeat_ngram_size is not None:
            forbid_repeats(log_probs_RV, tokens_RT, constraints.no_repeat_ngram_size)
        if constraints.grammar is not None:
            allowed_RV = torch.ones_like(log_probs_RV, dtype=torch.bool)
            known_RV = constraints.grammar(tokens_RT[occupied_R])  # without tokens copied from the source
            allowed_RV[occupied_R] = F.pad(known_RV, (0, log_probs_RV.shape[1] - known_RV.shape[1]))
            log_probs_RV.masked_fill_(~allowed_RV, NEG_INF)
        return log_probs_RV

    def force_prefix(self, masked_RV: Tensor, log_probs_RV: Tensor, t: int, sentence_R: Tensor) -> None:
        """If step t is in a sentence's prefix, allow only the prefix token, with the model's log-probability."""
        in_prefix_R = self.prefix_length_B[sentence_R] > t
        if bool(in_prefix_R.any()):
            token_R1 = self.prefix_BP[sentence_R, t, None]
            log_prob_R1 = log_probs_RV.gather(1, token_R1)
            forced_R1 = torch.where(in_prefix_R[:, None], log_prob_R1, masked_RV.gather(1, token_R1))
            masked_RV.masked_fill_(in_prefix_R[:, None], NEG_INF).scatter_(1, token_R1, forced_R1)


def forbid_phrases(log_probs_RV: Tensor, tokens_RT: Tensor, phrases_FL: Tensor) -> None:
    """Set the last token of a phrase to −∞ if the preceding tokens match the others; −1 matches any token."""
    context_FL, last_F = phrases_FL[:, :-1], phrases_FL[:, -1]
    missing = max(0, context_FL.shape[1] - tokens_RT.shape[1])
    tokens_RT = F.pad(tokens_RT, (missing, 0), value=-2)  # before the first token: matches nothing
    suffix_RL = tokens_RT[:, tokens_RT.shape[1] - context_FL.shape[1] :]
    matches_RF = ((suffix_RL[:, None] == context_FL) | (context_FL == -1)).all(-1)
    _forbid(log_probs_RV, last_F.expand_as(matches_RF), matches_RF)


def forbid_repeats(log_probs_RV: Tensor, tokens_RT: Tensor, n: int) -> None:
    """Set every token to −∞ that would repeat an n-gram."""
    if tokens_RT.shape[1] < n:
        return
    ngrams_RXN = tokens_RT.unfold(1, n, 1)
    suffix_RN = tokens_RT[:, tokens_RT.shape[1] - (n - 1) :]
    repeats_RX = (ngrams_RXN[..., :-1] == suffix_RN[:, None]).all(-1)
    _forbid(log_probs_RV, ngrams_RXN[..., -1], repeats_RX)


def _forbid(log_probs_RV: Tensor, token_RX: Tensor, where_RX: Tensor) -> None:
    """Set these tokens of each row to −∞ where the condition holds, for any occurrence of a token."""
    limit_RX = torch.full(token_RX.shape, torch.inf, dtype=log_probs_RV.dtype, device=log_probs_RV.device)
    log_probs_RV.scatter_reduce_(1, token_RX, limit_RX.masked_fill_(where_RX, NEG_INF), "amin")
