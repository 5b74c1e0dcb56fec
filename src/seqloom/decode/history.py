"""The history of a search: back-pointers, from which hypotheses are read at the end.

Every step adds a *node* for each selected candidate. A node points to its predecessor among the nodes of the previous
step, so no token sequence is copied during the search.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.decode.hypothesis import Hypothesis


class BackPointers(NamedTuple):
    """The nodes X of one step: the row that each extends, the node of that row, the token and its log-probability."""

    row_X: Tensor
    parent_X: Tensor
    token_X: Tensor
    log_prob_X: Tensor
    attention_RS: Tensor | None


class CompletedHypothesis(NamedTuple):
    """A hypothesis as a path through the history: its last node, and the step of that node (−1: no tokens)."""

    step: int
    node: int
    total: float
    score: float
    finished: bool


class SearchHistory:
    """All steps of a search over B sentences; ``keep_attention``: with the attention weights."""

    def __init__(self, sentences: int, *, keep_attention: bool) -> None:
        self.keep_attention = keep_attention
        self.steps: list[BackPointers] = []
        self.completed: list[list[CompletedHypothesis]] = [[] for _ in range(sentences)]
        self.best_stopped: dict[int, float] = {}
        self.any_finished = False

    def add(
        self, row_X: Tensor, parent_X: Tensor, token_X: Tensor, log_prob_X: Tensor, attention_RS: Tensor | None
    ) -> None:
        """Add one step, with the attention weights of its rows."""
        attention_RS = attention_RS if self.keep_attention else None
        self.steps.append(BackPointers(row_X, parent_X, token_X, log_prob_X, attention_RS))

    def finish(self, sentence_E: Tensor, node_E: Tensor, total_E: Tensor, score_E: Tensor) -> None:
        """Record hypotheses that reach EOS at nodes of this step."""
        self.any_finished = True
        self._record(len(self.steps) - 1, True, sentence_E, node_E, total_E, score_E)

    def truncate(self, sentence_E: Tensor, node_E: Tensor, total_E: Tensor, score_E: Tensor) -> None:
        """Record hypotheses that this step can't extend: they stop, without EOS, at nodes of the previous step."""
        self._record(len(self.steps) - 2, False, sentence_E, node_E, total_E, score_E)

    def record_best_stopped(self, sentence_E: Tensor, score_E: Tensor) -> None:
        """For sentences at their maximum length, record the best score of a partial hypothesis that it stopped."""
        self.best_stopped.update(zip(sentence_E.tolist(), score_E.tolist(), strict=True))

    def _record(self, step: int, finished: bool, *columns_E: Tensor) -> None:
        for sentence, node, total, score in zip(*(column.tolist() for column in columns_E), strict=True):
            self.completed[sentence].append(CompletedHypothesis(step, node, total, score, finished))

    def hypotheses(
        self, n_best: int, score_formula: str, mask_BS: Tensor, *, on_source: bool
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of every sentence: finished ones first, then by score, then by total."""
        best = [sorted(one, key=lambda e: (not e.finished, -e.score, -e.total))[:n_best] for one in self.completed]
        tokens, log_probs, rows, attention = self._read([end for one in best for end in one], mask_BS.device)
        hypotheses: list[list[Hypothesis]] = []
        e = 0
        for sentence, (one, mask_S) in enumerate(zip(best, mask_BS.cpu(), strict=True)):
            hypotheses.append([])
            best_stopped = self.best_stopped.get(sentence, -math.inf)
            for end in one:
                n = end.step + 1
                attended = mask_S if on_source else torch.ones(n, dtype=torch.bool)  # the columns of attention
                hypotheses[-1].append(
                    Hypothesis(
                        tokens=tokens[e][: n - 1 if end.finished else n],
                        log_prob=math.fsum(log_probs[e][:n]),
                        score=end.score,
                        score_formula=score_formula,
                        token_log_probs=log_probs[e][:n],
                        attention=None if attention is None else attention[e, :n, : len(attended)][:, attended],
                        finished=end.finished,
                        truncated=not end.finished or end.score < best_stopped,
                        on_source=on_source,
                        rows=rows[e][:n],
                    )
                )
                e += 1
        return hypotheses

    def _read(
        self, completed: list[CompletedHypothesis], device: torch.device
    ) -> tuple[list[list[int]], list[list[float]], list[list[int]], Tensor | None]:
        """Tokens, log-probabilities, rows and attention (E T S) of hypotheses, read from their last step back."""
        step_E = torch.tensor([end.step for end in completed], device=device)
        node_E = torch.tensor([end.node for end in completed], device=device)
        tokens, log_probs, rows, attention = [], [], [], []
        for t, nodes in reversed(list(enumerate(self.steps))):
            node_at_t_E = torch.where(step_E >= t, node_E, 0)  # 0 for shorter hypotheses: the caller discards it
            tokens.append(nodes.token_X[node_at_t_E])
            log_probs.append(nodes.log_prob_X[node_at_t_E])
            rows.append(nodes.row_X[node_at_t_E])
            if nodes.attention_RS is not None:
                attention.append(nodes.attention_RS[rows[-1]])
            node_E = torch.where(step_E >= t, nodes.parent_X[node_at_t_E], node_E)
        tokens_ET, log_probs_ET, rows_ET = (torch.stack(s[::-1], 1).tolist() for s in (tokens, log_probs, rows))
        if not attention:
            return tokens_ET, log_probs_ET, rows_ET, None
        width = max(*(a.shape[1] for a in attention), len(attention))  # attention to the past widens with every step
        return (
            tokens_ET,
            log_probs_ET,
            rows_ET,
            torch.stack([F.pad(a, (0, width - a.shape[1])) for a in attention[::-1]], 1).cpu(),
        )
