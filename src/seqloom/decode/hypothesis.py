"""``Hypothesis``: one output of a search, with its score, log-probabilities and attention."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One output sequence of a search.

    tokens: token ids, without EOS. For a model with another output than tokens, its values, including the one that
        ended them.
    log_prob: log p(tokens, EOS | source), the sum of ``token_log_probs``; NaN after a rollout.
    score: the number by which hypotheses are ranked.
    score_formula: how ``score`` is computed from ``log_prob``, n (the number of ``token_log_probs``) and w_ts (the
        ``attention``), or a description.
    token_log_probs: the model's log-probability of every token and of EOS; without EOS if unfinished.
    attention: attention weights, with a row for each of ``token_log_probs`` and a column for each source position
        without padding (or each past position, if the model attends to the past); None without attention, or if not
        requested.
    finished: whether EOS was reached; if not, the maximum length was, or no token was allowed to follow.
    truncated: whether a limit, not the model, determined the end. In searches whose rows are independent (greedy,
        sampling, rollout): not finished. In beams (also diverse, stochastic, exhaustive, or of an engine): not
        finished, or a better partial hypothesis was stopped at the maximum length: one whose best next token was not
        EOS, and which with that token had a greater score, before any penalty, than this hypothesis. In minimum
        Bayes risk decoding: more than half of the samples are not finished.
    on_source: whether attention is to the source.
    rows: its row in the batch at every step, as a probe sees it; empty if an engine ran the search.
    """

    tokens: list[Any]
    log_prob: float
    score: float
    score_formula: str
    token_log_probs: list[float]
    attention: Tensor | None
    finished: bool
    truncated: bool
    on_source: bool = True
    rows: list[int] = field(default_factory=list, repr=False)
