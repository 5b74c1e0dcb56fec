"""The one loop of every search: step, forbid, choose, settle what ends, go on with the rest."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.batch import END, Batch
from seqloom.decode.lengths import Lengths
from seqloom.decode.normalisation import Normalisation
from seqloom.decode.protocol import Searched
from seqloom.decode.trail import Trail
from seqloom.errors import SeqloomError
from seqloom.nn.memory import State

IMPOSSIBLE = -torch.inf


class Rows(NamedTuple):
    """Where a search stands: K rows for each of the B sentences that are at work.

    t: how many tokens every row has.
    total_BK: log-probability of these; −∞: the row is a mere filler, its sentence having fewer.
    origin_BK: which of its sentence's first rows each comes from.
    finished_B: how many answers of a sentence have reached END.
    most_B: how many tokens an answer may have; at t = most nothing but END can follow.
    """

    t: int
    total_BK: Tensor
    origin_BK: Tensor
    finished_B: Tensor
    most_B: Tensor


class Choice(NamedTuple):
    """What a strategy chose: W candidates for each sentence.

    beam_BW, token_BW: which of the sentence's K rows goes on, and with what.
    log_prob_BW: that token's, by the model.
    total_BW: the candidate's; −∞: there is none.
    best_BK: the greatest log-probability of any continuation of a row; −∞: nothing can follow it.
    """

    beam_BW: Tensor
    token_BW: Tensor
    log_prob_BW: Tensor
    total_BW: Tensor
    best_BK: Tensor


Choose = Callable[[Tensor, Rows], Choice]
"""A strategy: from the log-probabilities of what may follow, B K V (−∞: it may not), and the rows so far."""


class Walk:
    """One search over one batch.

    choose: the strategy.
    starts: how many rows a sentence begins with.
    n_best: how many answers are wanted; a sentence is done when nothing can better those it has.
    never: tokens that no answer has.
    weights: whether those of attention are kept.
    """

    def __init__(
        self,
        model: Searched,
        batch: Batch,
        *,
        choose: Choose,
        starts: int,
        n_best: int,
        normalisation: Normalisation,
        lengths: Lengths,
        never: list[int],
        weights: bool,
    ) -> None:
        self.model, self.choose, self.normalisation = model, choose, normalisation
        self.memory = memory = model.prepare(batch)
        B, device = len(memory), memory.mask.device
        self.trail = Trail(B, keep_weights=weights)
        self.never = torch.tensor(never, device=device)
        self.sentence_B = torch.arange(B, device=device)
        self.least_B, most_B = lengths.bounds(memory.mask)
        self.state, self.last_R = model.start(memory), model.output.start(memory)
        if starts > 1:
            row_R = self.sentence_B.repeat_interleave(starts)
            self.state, self.last_R = self.state.select(row_R), self.last_R[row_R]
        self.node_R = torch.arange(B * starts, device=device)  # before the first step there are none to point to
        origin_BK = torch.arange(starts, device=device).expand(B, -1)
        none_B = torch.zeros_like(self.sentence_B)
        self.rows = Rows(0, torch.zeros(B, starts, device=device), origin_BK, none_B, most_B)
        self.best_BN = torch.full((B, n_best), IMPOSSIBLE, device=device)
        self._look_ahead()

    def _look_ahead(self) -> None:
        """When END becomes possible for all sentences, and when the first of them may end by its length."""
        self.all_may_end, self.first_limit = int(self.least_B.max()), int(self.rows.most_B.min())

    def run(self) -> Trail:
        """All steps, until every sentence is done."""
        while self._advance():
            pass
        return self.trail

    def _advance(self) -> bool:
        """One step; tells whether there is another."""
        step = self.model.step(self.last_R, self.state, self.memory)
        log_probs_RV = self._allowed(self.model.output.log_probs(step, self.memory))
        B, K = self.rows.total_BK.shape
        chosen = self.choose(log_probs_RV.view(B, K, -1), self.rows)
        row_BW = chosen.beam_BW + torch.arange(0, B * K, K, device=log_probs_RV.device)[:, None]
        row_X = row_BW.flatten()
        self.trail.add(
            row_X, self.node_R[row_X], chosen.token_BW.flatten(), chosen.log_prob_BW.flatten(), step.weights
        )
        on_BW = (chosen.total_BW > IMPOSSIBLE) & (chosen.token_BW != END)
        if self.rows.t >= self.first_limit or self.trail.some_finished or not bool(on_BW.all()):
            on_BW = self._settle(chosen, row_BW, on_BW)
        return self._go_on(step.state, chosen, row_X, on_BW)

    def _allowed(self, log_probs_RV: Tensor) -> Tensor:
        """The log-probabilities with −∞ for what is in no answer, and for an END that comes too soon."""
        log_probs_RV.index_fill_(1, self.never, IMPOSSIBLE)
        if self.rows.t < self.all_may_end:
            too_soon_R = (self.least_B > self.rows.t).repeat_interleave(self.rows.total_BK.shape[1])
            log_probs_RV[:, END].masked_fill_(too_soon_R, IMPOSSIBLE)
        return log_probs_RV

    def _settle(self, chosen: Choice, row_BW: Tensor, on_BW: Tensor) -> Tensor:
        """Take down what ends at this step, and tell what goes on."""
        t, total_BK = self.rows.t, self.rows.total_BK
        ended_BW = (chosen.total_BW > IMPOSSIBLE) & (chosen.token_BW == END)
        if bool(ended_BW.any()):
            value_BW = self.normalisation.divide(chosen.total_BW, t + 1)
            b, k = ended_BW.nonzero(as_tuple=True)
            node_E = b * ended_BW.shape[1] + k
            self.trail.finish(self.sentence_B[b], node_E, chosen.total_BW[b, k], value_BW[b, k])
            values = torch.cat((self.best_BN, value_BW.masked_fill(~ended_BW, IMPOSSIBLE)), 1)
            self.best_BN = values.topk(self.best_BN.shape[1]).values
            self.rows = self.rows._replace(finished_B=self.rows.finished_B + ended_BW.sum(1))

        at_limit_B1 = (self.rows.most_B == t)[:, None]
        cut_BK = (total_BK > IMPOSSIBLE) & (at_limit_B1 | ~(chosen.best_BK > IMPOSSIBLE))
        if bool(cut_BK.any()):
            if bool((cut_BK & chosen.best_BK.isnan()).any()):
                raise SeqloomError(
                    f"the model's log-probabilities at step {t + 1} are not numbers (NaN): its weights must be broken"
                )
            cut_BK.view(-1)[row_BW[ended_BW]] = False  # these have just finished
            b, k = cut_BK.nonzero(as_tuple=True)
            node_E = self.node_R[b * cut_BK.shape[1] + k]
            total_E = total_BK[b, k]
            self.trail.cut(self.sentence_B[b], node_E, total_E, self.normalisation.divide(total_E, max(t, 1)))

        on_BW = on_BW & ~at_limit_B1
        hope_B = chosen.total_BW.masked_fill(~on_BW, IMPOSSIBLE).amax(1)
        beaten_B = self.normalisation.divide(hope_B, self.rows.most_B + 1) <= self.best_BN[:, -1]
        return on_BW & ~beaten_B[:, None]

    def _go_on(self, state: State, chosen: Choice, row_X: Tensor, on_BW: Tensor) -> bool:
        """Make the candidates that are ``on`` the rows of the next step; sentences that are done leave."""
        (B, W), R = on_BW.shape, len(self.last_R)
        count_B = on_BW.sum(1)
        K, left = int(count_B.max()), int(count_B.count_nonzero())
        if not left:
            return False
        take_BK = torch.arange(B * W, device=row_X.device).view(B, W)
        if K < W:  # what goes on moves to the front, and the rest is not carried along
            take_BK = take_BK.gather(1, on_BW.byte().argsort(dim=1, descending=True, stable=True)[:, :K])
        if 4 * left <= 3 * B:  # selecting copies the memory: only when it spares a quarter of the work to come
            going_B = count_B.nonzero().squeeze(1)
            take_BK = take_BK[going_B]
            self._keep(going_B)
        self.node_R = take_BK.flatten()
        row_R = row_X[self.node_R]
        self.last_R = chosen.token_BW.flatten()[self.node_R]
        total_X = chosen.total_BW.masked_fill(~on_BW, IMPOSSIBLE).flatten()
        self.rows = Rows(
            self.rows.t + 1,
            total_X[self.node_R].view_as(take_BK),
            self.rows.origin_BK.flatten()[row_R].view_as(take_BK),
            self.rows.finished_B,
            self.rows.most_B,
        )
        everyone = torch.arange(R, device=row_R.device)
        self.state = state if torch.equal(row_R, everyone) else state.select(row_R)
        return True

    def _keep(self, going: Tensor) -> None:
        """Only the sentences that are going on, in all that is kept of sentences."""
        self.memory = self.memory.select(going)
        self.sentence_B, self.best_BN = self.sentence_B[going], self.best_BN[going]
        self.least_B = self.least_B[going]
        self.rows = self.rows._replace(finished_B=self.rows.finished_B[going], most_B=self.rows.most_B[going])
        self._look_ahead()
