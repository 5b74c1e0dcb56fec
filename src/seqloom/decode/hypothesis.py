"""``Hypothesis``: one answer, with all that speaks for it."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One answer.

    tokens: without END. Where a model writes no tokens, the values it wrote, with the one that ended them.
    log_prob: log p(tokens, END | source), the sum of ``token_log_probs``; NaN if they were rolled out.
    value: what answers are ranked by.
    formula: how ``value`` is made: of ``log_prob``, of n, the number of ``token_log_probs``, and of w_ts, the
        ``weights``; or in words.
    token_log_probs: the model's own, one per token and END's at the end; unfinished, there is no END.
    weights: of attention, a row for every one of ``token_log_probs`` and a column for every real step of the source
        (or, where the model attends to its own past, of that); None without attention, or if not asked for.
    finished: whether END was reached; if not, the maximum length was, or nothing was allowed to follow.
    truncated: whether the limits, not the model, decided where it ends. Where every row is on its own (greedy,
        sampling, rollout): it is not finished. In beams (also diverse, stochastic, exhaustive, an engine's own): it
        is not finished, or a better one was stopped at the maximum length: a beginning whose best next token was not
        END, and which with that token had a greater value, before any penalty, than this hypothesis. By minimum
        Bayes risk: more than half of the samples are not finished.
    on_source: whether attention is to the source.
    rows: which row of its batch it was at every step, as a probe sees them; empty if an engine searched by itself.
    """

    tokens: list[Any]
    log_prob: float
    value: float
    formula: str
    token_log_probs: list[float]
    weights: Tensor | None
    finished: bool
    truncated: bool
    on_source: bool = True
    rows: list[int] = field(default_factory=list, repr=False)
