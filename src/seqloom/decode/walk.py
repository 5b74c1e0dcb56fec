"""The one loop of every search: step, forbid, choose, settle what ends, go on with the rest."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.batch import END, START, Batch
from seqloom.decode.lengths import Lengths, Limits
from seqloom.decode.masks import IMPOSSIBLE, Masked, Masks
from seqloom.decode.protocol import StepModel
from seqloom.decode.ranking import Ranking
from seqloom.decode.trail import Trail
from seqloom.errors import OptionError, SeqloomError
from seqloom.nn.memory import DecoderState
from seqloom.nn.probe import Probe, at_step, silent


class Rows(NamedTuple):
    """Where a search stands: K rows for each of the B sentences that are at work.

    t: how many tokens every row has.
    total_BK: what its strategy has added up for a row; −∞: it is a mere filler, its sentence having fewer.
    origin_BK: which of its sentence's O first rows each comes from.
    carry_BK: whatever else the strategy carries along for each row; None at first.
    sentence_B: which sentences of the batch these are.
    finished_BO: how many answers of a sentence have reached END, by their origin.
    most_B: how many tokens an answer may have; at t = most nothing but END can follow.
    """

    t: int
    total_BK: Tensor
    origin_BK: Tensor
    carry_BK: Tensor | None
    sentence_B: Tensor
    finished_BO: Tensor
    most_B: Tensor


class Choice(NamedTuple):
    """What a strategy chose: W candidates for each sentence.

    beam_BW, token_BW: which of the sentence's K rows goes on, and with what; without beam_BW, each does by itself.
    total_BW: the candidate's; never more than that of the row it continues. −∞: there is none.
    best_BK: what the best of all continuations adds to a row's total, be it within the maximum length or not;
        −∞: nothing can follow it.
    carry_BW: what to carry along for each candidate.
    """

    beam_BW: Tensor | None
    token_BW: Tensor
    total_BW: Tensor
    best_BK: Tensor
    carry_BW: Tensor | None = None


Choose = Callable[[Tensor, Rows], Choice]
"""A strategy: from the log-probabilities of what may follow, B K V (−∞: it may not), and the rows so far."""


class Walk:
    """One search over one batch.

    choose: the strategy.
    starts: how many rows a sentence begins with.
    n_best: how many answers are wanted; a sentence is done when nothing can better those it has.
    ranking: what makes an answer's value of its total.
    never: tokens that no answer has.
    masks: what else may not follow.
    weights: whether those of attention are kept.
    probe: sees the model's activations, their names with the number of the step.
    """

    def __init__(
        self,
        model: StepModel[Any],
        batch: Any,
        *,
        choose: Choose,
        starts: int,
        n_best: int,
        ranking: Ranking,
        lengths: Lengths,
        limits: Limits | None,
        never: list[int],
        masks: Masks,
        weights: bool,
        probe: Probe = silent,
    ) -> None:
        self.model, self.choose, self.ranking, self.probe = model, choose, ranking, probe
        first = batch if isinstance(batch, Batch) else batch[0]
        B = first.rows
        self.memory = memory = model.encode(batch, probe=probe)
        device = memory.mask.device
        self.trail = Trail(B, keep_weights=weights)
        self.never = torch.tensor(never, device=device)
        sentence_B = torch.arange(B, device=device)
        self.least_B, most_B = lengths.bounds(first.source, B, device, longest=model.max_length, limits=limits)
        self.masked = None if masks.idle else Masked(masks, B, device)
        if self.masked is not None:
            self.masked.check(most_B)
        self.state, self.last_R = model.initial_state(memory), torch.full((B,), START, device=device)
        if starts > 1:
            row_R = sentence_B.repeat_interleave(starts)
            self.state, self.last_R = self.state.select(row_R), self.last_R[row_R]
        self.node_R = torch.arange(B * starts, device=device)  # before the first step there are none to point to
        self.past = (
            DecoderState()
        )  # of every row, where it is needed: its tokens, and how much of each source step it read
        if self.masked is not None:
            self.past["tokens"] = self.last_R.new_empty(B * starts, 0)
        if ranking.coverage:
            self.past["covered"] = torch.zeros(B * starts, memory.mask.shape[1], device=device)
        origin_BK = torch.arange(starts, device=device).expand(B, -1)
        total_BK = torch.zeros(B, starts, device=device)
        self.rows = Rows(0, total_BK, origin_BK, None, sentence_B, torch.zeros_like(origin_BK), most_B)
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
        probe = at_step(self.probe, self.rows.t)
        step = self.model.next_log_probs(self.last_R, self.state, self.memory, probe=probe)
        log_probs_RV = step.log_probs
        B, K = self.rows.total_BK.shape
        chosen = self.choose(self._allowed(log_probs_RV).view(B, K, -1), self.rows)
        token_X = chosen.token_BW.flatten()
        if chosen.beam_BW is None:
            row_BW, parent_X = torch.arange(B * K, device=token_X.device).view(B, K), self.node_R
        else:
            row_BW = chosen.beam_BW + torch.arange(0, B * K, K, device=token_X.device)[:, None]
            parent_X = self.node_R[row_BW.flatten()]
        row_X = row_BW.flatten()
        self.trail.add(row_X, parent_X, token_X, log_probs_RV[row_X, token_X], step.attention)
        on_BW = (chosen.total_BW > IMPOSSIBLE) & (chosen.token_BW != END)
        if (
            self.rows.t >= self.first_limit
            or self.trail.some_finished
            or not bool(on_BW.all())
            or (self.masked is not None and bool(self._stuck(chosen).any()))
        ):
            return self._go_on(step.state, chosen, row_X, self._settle(chosen, row_BW, on_BW, step.attention))
        if self.ranking.coverage:
            self._cover(step.attention)
        if chosen.beam_BW is None:
            self._continue(step.state, chosen, row_X)
        else:
            self._select(step.state, chosen, row_X, torch.arange(len(row_X), device=row_X.device).view_as(on_BW))
        return True

    def _stuck(self, chosen: Choice) -> Tensor:
        """Which rows nothing can follow, B K; fillers are none of them."""
        return (self.rows.total_BK > IMPOSSIBLE) & ~(chosen.best_BK > IMPOSSIBLE)

    def _allowed(self, log_probs_RV: Tensor) -> Tensor:
        """The log-probabilities with −∞ for what may not follow.

        Masks get a copy: what the trail takes down is the model's own. Elsewhere only −∞ is written, in place.
        """
        allowed_RV = log_probs_RV
        K = self.rows.total_BK.shape[1]
        if self.masked is not None:
            real_R = self.rows.total_BK.flatten() > IMPOSSIBLE
            allowed_RV = self.masked(log_probs_RV.clone(), self.past["tokens"], real_R)
        allowed_RV.index_fill_(1, self.never, IMPOSSIBLE)
        if self.rows.t < self.all_may_end:
            too_soon_R = (self.least_B > self.rows.t).repeat_interleave(K)
            allowed_RV[:, END].masked_fill_(too_soon_R, IMPOSSIBLE)
        if self.masked is not None:
            sentence_R = self.rows.sentence_B.repeat_interleave(K)
            self.masked.force(allowed_RV, log_probs_RV, self.rows.t, sentence_R)
        return allowed_RV

    def _cover(self, weights_RS: Tensor | None) -> None:
        """Add this step's attention to what every row has read of the source."""
        if weights_RS is None or self.model.attends_to != "source":
            what = "no attention" if weights_RS is None else "attention, but not to a source"
            raise OptionError(
                f"coverage={self.ranking.coverage:g} weighs how much of its source an answer attended to, and this "
                f"model has {what}: leave it out"
            )
        self.past["covered"] = self.past["covered"] + weights_RS

    def _settle(self, chosen: Choice, row_BW: Tensor, on_BW: Tensor, weights_RS: Tensor | None) -> Tensor:
        """Take down what ends at this step, and tell what goes on."""
        t, total_BK = self.rows.t, self.rows.total_BK
        ended_BW = (chosen.total_BW > IMPOSSIBLE) & (chosen.token_BW == END)
        at_limit_B1 = (self.rows.most_B == t)[:, None]
        cut_BK = (total_BK > IMPOSSIBLE) & at_limit_B1 | self._stuck(chosen)
        if bool(cut_BK.any()):
            if bool((cut_BK & chosen.best_BK.isnan()).any()):
                raise SeqloomError(
                    f"the model's log-probabilities at step {t + 1} are not numbers (NaN): its weights must be broken"
                )
            cut_BK.view(-1)[row_BW[ended_BW]] = False  # these finish
            b, k = cut_BK.nonzero(as_tuple=True)
            row_E = b * cut_BK.shape[1] + k
            total_E = total_BK[b, k]
            value_E = self._value(total_E, max(t, 1), row_E, b)
            self.trail.cut(self.rows.sentence_B[b], self.node_R[row_E], total_E, value_E)

        if self.ranking.coverage:
            self._cover(weights_RS)  # END's step reads too; what was cut has none
        if bool(ended_BW.any()):
            b, k = ended_BW.nonzero(as_tuple=True)
            total_E = chosen.total_BW[b, k]
            value_E = self._value(total_E, t + 1, row_BW[b, k], b)
            self.trail.finish(self.rows.sentence_B[b], b * ended_BW.shape[1] + k, total_E, value_E)
            value_BW = torch.full_like(chosen.total_BW, IMPOSSIBLE)
            value_BW[b, k] = value_E.to(value_BW.dtype)
            self.best_BN = torch.cat((self.best_BN, value_BW), 1).topk(self.best_BN.shape[1]).values
            origin_E = self.rows.origin_BK.flatten()[row_BW[b, k]]
            finished_BO = self.rows.finished_BO.index_put((b, origin_E), torch.ones_like(b), accumulate=True)
            self.rows = self.rows._replace(finished_BO=finished_BO)

        if chosen.beam_BW is not None and t >= self.first_limit:
            self._stop(chosen, row_BW, ended_BW, at_limit_B1[:, 0])
        on_BW = on_BW & ~at_limit_B1
        hope_B = chosen.total_BW.masked_fill(~on_BW, IMPOSSIBLE).amax(1)
        beaten_B = self.ranking.divide(hope_B, self.rows.most_B + 1) <= self.best_BN[:, -1]
        return on_BW & ~beaten_B[:, None]

    def _stop(self, chosen: Choice, row_BW: Tensor, ended_BW: Tensor, at_limit_B: Tensor) -> None:
        """Take down what the best beginning is worth that would go on, had its sentence not reached its limit.

        One would if its best continuation is not END: no answer that ends with it has so great a total.
        """
        hope_BK = self.rows.total_BK + chosen.best_BK
        content_BW = ended_BW & (chosen.total_BW >= hope_BK.flatten()[row_BW])
        hope_BK.view(-1)[row_BW[content_BW]] = IMPOSSIBLE
        hope_B = self.ranking.divide(hope_BK.amax(1), self.rows.t + 1)
        self.trail.stop(self.rows.sentence_B[at_limit_B], hope_B[at_limit_B])

    def _value(self, total_E: Tensor, n: int, row_E: Tensor, b_E: Tensor) -> Tensor:
        """Of answers of n tokens that end in these rows, of the sentences at these places."""
        value_E = self.ranking.divide(total_E, n)
        if self.ranking.coverage:
            value_E = value_E + self.ranking.penalty(self.past["covered"][row_E], self.memory.mask[b_E])
        return value_E

    def _go_on(self, state: DecoderState, chosen: Choice, row_X: Tensor, on_BW: Tensor) -> bool:
        """Make the candidates that are ``on`` the rows of the next step; sentences that are done leave."""
        B, W = on_BW.shape
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
        chosen = chosen._replace(total_BW=chosen.total_BW.masked_fill(~on_BW, IMPOSSIBLE))
        self._select(state, chosen, row_X, take_BK)
        return True

    def _continue(self, state: DecoderState, chosen: Choice, row_R: Tensor) -> None:
        """Every row goes on by itself: the short way of ``_select``."""
        self.node_R, self.last_R, self.state = row_R, chosen.token_BW.flatten(), state
        self.rows = self.rows._replace(t=self.rows.t + 1, total_BK=chosen.total_BW, carry_BK=chosen.carry_BW)
        self._remember()

    def _select(self, state: DecoderState, chosen: Choice, row_X: Tensor, take_BK: Tensor) -> None:
        """Make some of the candidates the rows of the next step."""
        rows = len(self.last_R)
        self.node_R = take_BK.flatten()
        row_R = row_X[self.node_R]
        self.last_R = chosen.token_BW.flatten()[self.node_R]
        carry_BW = chosen.carry_BW
        self.rows = self.rows._replace(
            t=self.rows.t + 1,
            total_BK=chosen.total_BW.flatten()[take_BK],
            origin_BK=self.rows.origin_BK.flatten()[row_R].view_as(take_BK),
            carry_BK=None if carry_BW is None else carry_BW.flatten(0, 1)[take_BK],
        )
        if len(row_R) != rows or not torch.equal(row_R, torch.arange(rows, device=row_R.device)):
            state, self.past = state.select(row_R), self.past.select(row_R)
        self.state = state
        self._remember()

    def _remember(self) -> None:
        """Keep what every row has said, where masks ask for it."""
        if self.masked is not None:
            self.past["tokens"] = torch.cat((self.past["tokens"], self.last_R[:, None]), 1)

    def _keep(self, going: Tensor) -> None:
        """Only the sentences that are going on, in all that is kept of sentences."""
        self.memory = self.memory.select(going)
        self.best_BN, self.least_B = self.best_BN[going], self.least_B[going]
        self.rows = self.rows._replace(
            sentence_B=self.rows.sentence_B[going],
            finished_BO=self.rows.finished_BO[going],
            most_B=self.rows.most_B[going],
        )
        self._look_ahead()
