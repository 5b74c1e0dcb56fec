"""What may follow what has been said: masks, which combine with each other and with every search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.batch import END, pad
from seqloom.errors import InputError, OptionError, SentenceError, SizeError

Phrase = Sequence[int]
Grammar = Callable[[Tensor], Tensor]
"""From the tokens so far, R T, to whether each token may follow, R V of bool; END where an answer may stop."""
IMPOSSIBLE = -torch.inf


@dataclass(frozen=True)
class Masks:
    """What answers must begin with, hold and avoid, in tokens.

    prefix: what the answer to each sentence begins with; it goes before all else that is said here. The tokens of a
        prefix have their log-probabilities like any others.
    forbidden: phrases that are in no answer.
    no_repeat: no sequence of this many tokens comes twice.
    repetition_penalty: θ (Keskar et al. 2019). The search goes by q instead of the model's p: q_v ∝ p_v^θ if v has
        been said, else q_v ∝ p_v. What answers report is p.
    grammar: the tokens so far → the tokens that may follow. A function of all rows at once, since it is asked at
        every step.
    required: phrases that are in every finished answer, for each sentence; for search ``beam``.
    numbers: what the sentences are called in errors; by default their places in the batch.
    """

    prefix: Sequence[Phrase] | None = None
    forbidden: Sequence[Phrase] = ()
    no_repeat: int | None = None
    repetition_penalty: float = 1.0
    grammar: Grammar | None = None
    required: Sequence[Sequence[Phrase]] | None = None
    numbers: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.no_repeat is not None and self.no_repeat < 1:
            raise OptionError(f"no_repeat={self.no_repeat}: a sequence that may not come twice has a token at least")
        if self.repetition_penalty <= 0:
            raise OptionError(f"repetition_penalty={self.repetition_penalty} must be above 0; at 1 there is none")
        required = [phrase for phrases in self.required or () for phrase in phrases]
        for name, phrases in (("prefix", self.prefix or ()), ("forbidden", self.forbidden), ("required", required)):
            for phrase in phrases:
                if name != "prefix" and not len(phrase):
                    raise InputError(f"{name}: a phrase of no tokens, which every answer has")
                if any(token <= END for token in phrase):
                    raise InputError(f"{name}: {list(phrase)} has PAD, START or END in it, which no answer has")

    @property
    def idle(self) -> bool:
        """Whether everything is allowed and nothing asked for."""
        some = any(self.prefix or ()) or len(self.forbidden) > 0 or self.requires
        return not some and (self.no_repeat, self.repetition_penalty, self.grammar) == (None, 1, None)

    @property
    def requires(self) -> bool:
        """Whether anything is required of any sentence."""
        return any(len(phrases) for phrases in self.required or ())


class Masked:
    """Masks as tensors, ready for a batch of so many sentences."""

    def __init__(self, masks: Masks, sentences: int, device: torch.device) -> None:
        self.masks = masks
        for name, each in (("prefix", masks.prefix), ("required", masks.required)):
            if each is not None and len(each) != sentences:
                raise SizeError(f"masks: {name} has {len(each)} entries for {sentences} sentences: give one for each")
        prefix_BP, real_BP = pad(masks.prefix or [[]] * sentences)
        self.prefix_BP, self.prefix_length_B = prefix_BP.to(device), real_BP.sum(1).to(device)
        # Phrases stand at the end of their rows, so that their last tokens are in one column; −1 matches anything.
        longest = max((len(phrase) for phrase in masks.forbidden), default=1)
        rows = [[-1] * (longest - len(phrase)) + list(phrase) for phrase in masks.forbidden]
        self.forbidden_FL = torch.tensor(rows, dtype=torch.long, device=device).view(-1, longest)

    def check(self, most_B: Tensor) -> None:
        """Refuse what no answer of at most so many tokens can hold."""
        required = self.masks.required or [[]] * len(most_B)
        for name, lengths in (
            ("prefix", self.prefix_length_B.tolist()),
            ("required phrase", [max(map(len, phrases), default=0) for phrases in required]),
        ):
            numbers = range(len(most_B)) if self.masks.numbers is None else self.masks.numbers
            for sentence, length, most in zip(numbers, lengths, most_B.tolist(), strict=True):
                if length > most:
                    raise SentenceError(
                        f"its {name} has {length} tokens, and its answer may have {most}: "
                        "raise max_length or max_ratio",
                        sentence,
                    )

    def __call__(self, log_probs_RV: Tensor, tokens_RT: Tensor, real_R: Tensor) -> Tensor:
        """The log-probabilities to search by, −∞ for what may not follow; what is given is written on.

        real_R: which rows are no mere fillers: a grammar, which may be anyone's, is asked about these alone.
        """
        masks = self.masks
        if masks.repetition_penalty != 1 and tokens_RT.shape[1]:
            said_RT = log_probs_RV.gather(1, tokens_RT) * masks.repetition_penalty
            log_probs_RV = torch.log_softmax(log_probs_RV.scatter_(1, tokens_RT, said_RT), 1)
        if len(masks.forbidden):
            forbid_phrases(log_probs_RV, tokens_RT, self.forbidden_FL)
        if masks.no_repeat is not None:
            forbid_repeats(log_probs_RV, tokens_RT, masks.no_repeat)
        if masks.grammar is not None:
            may_follow_RV = torch.ones_like(log_probs_RV, dtype=torch.bool)
            known_RV = masks.grammar(tokens_RT[real_R])  # what a source adds to the vocabulary it does not know
            may_follow_RV[real_R] = F.pad(known_RV, (0, log_probs_RV.shape[1] - known_RV.shape[1]))
            log_probs_RV.masked_fill_(~may_follow_RV, IMPOSSIBLE)
        return log_probs_RV

    def force(self, allowed_RV: Tensor, log_probs_RV: Tensor, t: int, sentence_R: Tensor) -> None:
        """Where step t is in a sentence's prefix, nothing but the prefix's token, which has the model's own."""
        within_R = self.prefix_length_B[sentence_R] > t
        if bool(within_R.any()):
            token_R1 = self.prefix_BP[sentence_R, t, None]
            own_R1 = log_probs_RV.gather(1, token_R1)
            forced_R1 = torch.where(within_R[:, None], own_R1, allowed_RV.gather(1, token_R1))
            allowed_RV.masked_fill_(within_R[:, None], IMPOSSIBLE).scatter_(1, token_R1, forced_R1)


def forbid_phrases(log_probs_RV: Tensor, tokens_RT: Tensor, phrases_FL: Tensor) -> None:
    """−∞ for the last token of a phrase where all its others have just been said; −1 matches anything."""
    before_FL, last_F = phrases_FL[:, :-1], phrases_FL[:, -1]
    missing = max(0, before_FL.shape[1] - tokens_RT.shape[1])
    tokens_RT = F.pad(tokens_RT, (missing, 0), value=-2)  # before the first token: matches nothing
    just_RL = tokens_RT[:, tokens_RT.shape[1] - before_FL.shape[1] :]
    said_RF = ((just_RL[:, None] == before_FL) | (before_FL == -1)).all(-1)
    _forbid(log_probs_RV, last_F.expand_as(said_RF), said_RF)


def forbid_repeats(log_probs_RV: Tensor, tokens_RT: Tensor, n: int) -> None:
    """−∞ for every token that would make the last n tokens a sequence that has been said before."""
    if tokens_RT.shape[1] < n:
        return
    said_RXN = tokens_RT.unfold(1, n, 1)
    just_RN = tokens_RT[:, tokens_RT.shape[1] - (n - 1) :]
    again_RX = (said_RXN[..., :-1] == just_RN[:, None]).all(-1)
    _forbid(log_probs_RV, said_RXN[..., -1], again_RX)


def _forbid(log_probs_RV: Tensor, token_RX: Tensor, where_RX: Tensor) -> None:
    """−∞ for these tokens of each row where said so. (A token that comes twice is forbidden by either.)"""
    limit_RX = torch.full(token_RX.shape, torch.inf, dtype=log_probs_RV.dtype, device=log_probs_RV.device)
    log_probs_RV.scatter_reduce_(1, token_RX, limit_RX.masked_fill_(where_RX, IMPOSSIBLE), "amin")
