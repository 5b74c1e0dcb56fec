"""The trail of a search: back-pointers, from which answers are read when it is over.

Every step leaves a *node* for each candidate that it chose. A node points to its predecessor among the nodes of the
step before, so that no history is copied while the search runs.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.decode.hypothesis import Hypothesis


class Nodes(NamedTuple):
    """The nodes X of one step: the row that each continues, that row's own node, and what was chosen."""

    row_X: Tensor
    parent_X: Tensor
    token_X: Tensor
    log_prob_X: Tensor
    weights_RS: Tensor | None


class Ending(NamedTuple):
    """An answer in the trail: its last node, and that node's step (−1: it has no token)."""

    step: int
    node: int
    total: float
    value: float
    finished: bool


class Trail:
    """All steps of a search over B sentences; ``keep_weights``: those of attention too."""

    def __init__(self, sentences: int, *, keep_weights: bool) -> None:
        self.keep_weights = keep_weights
        self.steps: list[Nodes] = []
        self.endings: list[list[Ending]] = [[] for _ in range(sentences)]
        self.stopped: dict[int, float] = {}
        self.some_finished = False

    def add(
        self, row_X: Tensor, parent_X: Tensor, token_X: Tensor, log_prob_X: Tensor, weights: Tensor | None
    ) -> None:
        """One more step; weights: of its rows."""
        self.steps.append(Nodes(row_X, parent_X, token_X, log_prob_X, weights if self.keep_weights else None))

    def finish(self, sentence_E: Tensor, node_E: Tensor, total_E: Tensor, value_E: Tensor) -> None:
        """Answers that reach END at nodes of this step."""
        self.some_finished = True
        self._end(len(self.steps) - 1, True, sentence_E, node_E, total_E, value_E)

    def cut(self, sentence_E: Tensor, node_E: Tensor, total_E: Tensor, value_E: Tensor) -> None:
        """Answers that this step would not continue: they end, without END, at nodes of the step before."""
        self._end(len(self.steps) - 2, False, sentence_E, node_E, total_E, value_E)

    def stop(self, sentence_E: Tensor, value_E: Tensor) -> None:
        """Sentences at their maximum length, with what the best beginning was worth that would have gone on."""
        self.stopped.update(zip(sentence_E.tolist(), value_E.tolist(), strict=True))

    def _end(self, step: int, finished: bool, *columns_E: Tensor) -> None:
        for sentence, node, total, value in zip(*(column.tolist() for column in columns_E), strict=True):
            self.endings[sentence].append(Ending(step, node, total, value, finished))

    def hypotheses(self, n_best: int, formula: str, mask_BS: Tensor, *, on_source: bool) -> list[list[Hypothesis]]:
        """The best answers of every sentence: finished ones first, by value among these, and of equals by total."""
        best = [sorted(one, key=lambda e: (not e.finished, -e.value, -e.total))[:n_best] for one in self.endings]
        tokens, log_probs, rows, weights = self._read([end for one in best for end in one], mask_BS.device)
        answers: list[list[Hypothesis]] = []
        e = 0
        for sentence, (one, real_S) in enumerate(zip(best, mask_BS.cpu(), strict=True)):
            answers.append([])
            stopped = self.stopped.get(sentence, -math.inf)
            for end in one:
                n = end.step + 1
                of = real_S if on_source else torch.ones(n, dtype=torch.bool)  # what attention is about
                answers[-1].append(
                    Hypothesis(
                        tokens=tokens[e][: n - 1 if end.finished else n],
                        log_prob=math.fsum(log_probs[e][:n]),
                        value=end.value,
                        formula=formula,
                        token_log_probs=log_probs[e][:n],
                        weights=None if weights is None else weights[e, :n, : len(of)][:, of],
                        finished=end.finished,
                        truncated=not end.finished or end.value < stopped,
                        on_source=on_source,
                        rows=rows[e][:n],
                    )
                )
                e += 1
        return answers

    def _read(
        self, endings: list[Ending], device: torch.device
    ) -> tuple[list[list[int]], list[list[float]], list[list[int]], Tensor | None]:
        """Tokens, log-probabilities, rows and weights (E T S) of the endings, from the last step to the first."""
        step_E = torch.tensor([end.step for end in endings], device=device)
        node_E = torch.tensor([end.node for end in endings], device=device)
        tokens, log_probs, rows, weights = [], [], [], []
        for t, nodes in reversed(list(enumerate(self.steps))):
            here_E = torch.where(step_E >= t, node_E, 0)  # one that ends earlier reads anything: it is cut off later
            tokens.append(nodes.token_X[here_E])
            log_probs.append(nodes.log_prob_X[here_E])
            rows.append(nodes.row_X[here_E])
            if nodes.weights_RS is not None:
                weights.append(nodes.weights_RS[rows[-1]])
            node_E = torch.where(step_E >= t, nodes.parent_X[here_E], node_E)
        tokens_ET, log_probs_ET, rows_ET = (torch.stack(s[::-1], 1).tolist() for s in (tokens, log_probs, rows))
        if not weights:
            return tokens_ET, log_probs_ET, rows_ET, None
        widest = max(*(w.shape[1] for w in weights), len(weights))  # those on a past grow with it
        return (
            tokens_ET,
            log_probs_ET,
            rows_ET,
            torch.stack([F.pad(w, (0, widest - w.shape[1])) for w in weights[::-1]], 1).cpu(),
        )
