"""The loop shared by all searches: step, mask, select, record finished hypotheses, continue with the others."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.batch import BOS, EOS, Batch
from seqloom.decode.constraints import NEG_INF, ConstraintMask, TokenConstraints
from seqloom.decode.history import SearchHistory
from seqloom.decode.lengths import LengthLimits, TrainingLengths
from seqloom.decode.protocol import StepModel
from seqloom.decode.ranking import HypothesisScorer
from seqloom.errors import ConfigError, SeqloomError
from seqloom.nn.memory import DecoderState
from seqloom.nn.probe import Probe, at_step, no_probe


class BeamState(NamedTuple):
    """The current partial hypotheses: K slots (rows) for each of the B active sentences.

    t: number of tokens in every row.
    total_BK: the strategy's running total for a row; −∞: the slot is empty, as the sentence has fewer hypotheses.
    origin_BK: which of the sentence's O initial rows a row descends from.
    carry_BK: further data per row, defined by the strategy; None at the first step.
    sentence_B: indices of the active sentences in the batch.
    finished_BO: number of hypotheses that reached EOS, by origin.
    max_length_B: maximum number of tokens; at t = max_length only EOS can follow.
    """

    t: int
    total_BK: Tensor
    origin_BK: Tensor
    carry_BK: Tensor | None
    sentence_B: Tensor
    finished_BO: Tensor
    max_length_B: Tensor


class Candidates(NamedTuple):
    """The W candidates per sentence that a strategy selected.

    beam_BW, token_BW: the row that a candidate extends, and its token; if beam_BW is None, every row extends itself.
    total_BW: total of the candidate, never greater than that of the row it extends. −∞: no candidate.
    best_BK: what the best continuation adds to a row's total, whether or not the maximum length allows it;
        −∞: a dead end, nothing can follow.
    carry_BW: further data per candidate.
    """

    beam_BW: Tensor | None
    token_BW: Tensor
    total_BW: Tensor
    best_BK: Tensor
    carry_BW: Tensor | None = None


Select = Callable[[Tensor, BeamState], Candidates]
"""A strategy: selects candidates, given next-token log-probabilities, B K V (−∞: not allowed), and the beam."""


class DecodingLoop:
    """One search over one batch.

    select: the strategy.
    initial_rows: number of rows per sentence at the first step.
    n_best: number of hypotheses to find; a sentence is done when no continuation can improve on those it has.
    scorer: computes the score of a hypothesis from its total.
    suppressed_tokens: tokens that never occur in a hypothesis.
    constraints: further restrictions on the next token.
    return_attention: keep attention weights.
    probe: called with the model's activations; their names end with the number of the step.
    """

    def __init__(
        self,
        model: StepModel[Any],
        batch: Any,
        *,
        select: Select,
        initial_rows: int,
        n_best: int,
        scorer: HypothesisScorer,
        lengths: LengthLimits,
        training_lengths: TrainingLengths | None,
        suppressed_tokens: list[int],
        constraints: TokenConstraints,
        return_attention: bool,
        probe: Probe = no_probe,
    ) -> None:
        self.model, self.select, self.scorer, self.probe = model, select, scorer, probe
        first = batch if isinstance(batch, Batch) else batch[0]
        B = first.rows
        self.memory = memory = model.encode(batch, probe=probe)
        device = memory.mask.device
        self.history = SearchHistory(B, keep_attention=return_attention)
        self.suppressed_tokens = torch.tensor(suppressed_tokens, device=device)
        sentence_B = torch.arange(B, device=device)
        self.min_length_B, max_length_B = lengths.bounds(
            first.source, B, device, model_max_length=model.max_length, training_lengths=training_lengths
        )
        self.constraint_mask = None if constraints.is_empty else ConstraintMask(constraints, B, device)
        if self.constraint_mask is not None:
            self.constraint_mask.check_lengths(max_length_B)
        self.state, self.prev_token_R = model.initial_state(memory), torch.full((B,), BOS, device=device)
        if initial_rows > 1:
            row_R = sentence_B.repeat_interleave(initial_rows)
            self.state, self.prev_token_R = self.state.select(row_R), self.prev_token_R[row_R]
        self.node_R = torch.arange(B * initial_rows, device=device)  # there are no nodes before the first step
        # Per row, where needed: its tokens, and the attention that each source position has received.
        self.past = DecoderState()
        if self.constraint_mask is not None:
            self.past["tokens"] = self.prev_token_R.new_empty(B * initial_rows, 0)
        if scorer.coverage_penalty:
            self.past["covered"] = torch.zeros(B * initial_rows, memory.mask.shape[1], device=device)
        origin_BK = torch.arange(initial_rows, device=device).expand(B, -1)
        total_BK = torch.zeros(B, initial_rows, device=device)
        self.beam = BeamState(0, total_BK, origin_BK, None, sentence_B, torch.zeros_like(origin_BK), max_length_B)
        self.best_scores_BN = torch.full((B, n_best), NEG_INF, device=device)
        self._update_length_bounds()

    def _update_length_bounds(self) -> None:
        """Find the step from which all sentences may end, and the first step at which one must."""
        self.all_may_end, self.first_must_end = int(self.min_length_B.max()), int(self.beam.max_length_B.min())

    def run(self) -> SearchHistory:
        """Run all steps, until every sentence is done."""
        while self._step():
            pass
        return self.history

    def _step(self) -> bool:
        """Run one step; return whether there is another."""
        probe = at_step(self.probe, self.beam.t)
        step = self.model.next_log_probs(self.prev_token_R, self.state, self.memory, probe=probe)
        log_probs_RV = step.log_probs
        B, K = self.beam.total_BK.shape
        selected = self.select(self._mask(log_probs_RV).view(B, K, -1), self.beam)
        token_X = selected.token_BW.flatten()
        if selected.beam_BW is None:
            row_BW, parent_X = torch.arange(B * K, device=token_X.device).view(B, K), self.node_R
        else:
            row_BW = selected.beam_BW + torch.arange(0, B * K, K, device=token_X.device)[:, None]
            parent_X = self.node_R[row_BW.flatten()]
        row_X = row_BW.flatten()
        self.history.add(row_X, parent_X, token_X, log_probs_RV[row_X, token_X], step.attention)
        active_BW = (selected.total_BW > NEG_INF) & (selected.token_BW != EOS)
        if (
            self.beam.t >= self.first_must_end
            or self.history.any_finished
            or not bool(active_BW.all())
            or (self.constraint_mask is not None and bool(self._dead_ends(selected).any()))
        ):
            active_BW = self._record_completed(selected, row_BW, active_BW, step.attention)
            return self._continue_active(step.state, selected, row_X, active_BW)
        if self.scorer.coverage_penalty:
            self._update_coverage(step.attention)
        if selected.beam_BW is None:
            self._continue_in_place(step.state, selected, row_X)
        else:
            every_BW = torch.arange(len(row_X), device=row_X.device).view_as(active_BW)
            self._continue_selected(step.state, selected, row_X, every_BW)
        return True

    def _dead_ends(self, selected: Candidates) -> Tensor:
        """Rows that nothing can follow, B K, without empty slots."""
        return (self.beam.total_BK > NEG_INF) & ~(selected.best_BK > NEG_INF)

    def _mask(self, log_probs_RV: Tensor) -> Tensor:
        """Set the log-probabilities of tokens that are not allowed to −∞.

        With constraints this returns a copy, since the history records the model's own log-probabilities. Otherwise
        it works in place, as it only writes −∞.
        """
        masked_RV = log_probs_RV
        K = self.beam.total_BK.shape[1]
        if self.constraint_mask is not None:
            occupied_R = self.beam.total_BK.flatten() > NEG_INF
            masked_RV = self.constraint_mask(log_probs_RV.clone(), self.past["tokens"], occupied_R)
        masked_RV.index_fill_(1, self.suppressed_tokens, NEG_INF)
        if self.beam.t < self.all_may_end:
            too_short_R = (self.min_length_B > self.beam.t).repeat_interleave(K)
            masked_RV[:, EOS].masked_fill_(too_short_R, NEG_INF)
        if self.constraint_mask is not None:
            sentence_R = self.beam.sentence_B.repeat_interleave(K)
            self.constraint_mask.force_prefix(masked_RV, log_probs_RV, self.beam.t, sentence_R)
        return masked_RV

    def _update_coverage(self, attention_RS: Tensor | None) -> None:
        """Add this step's attention weights to the coverage of every row."""
        if attention_RS is None or self.model.attends_to != "source":
            found = "no attention" if attention_RS is None else "attention, but not to a source"
            raise ConfigError(
                f"coverage_penalty={self.scorer.coverage_penalty:g} needs attention to the source, and this model "
                f"has {found}: remove coverage_penalty"
            )
        self.past["covered"] = self.past["covered"] + attention_RS

    def _record_completed(
        self, selected: Candidates, row_BW: Tensor, active_BW: Tensor, attention_RS: Tensor | None
    ) -> Tensor:
        """Record the hypotheses that are finished or truncated at this step; return which candidates stay active."""
        t, total_BK = self.beam.t, self.beam.total_BK
        finishes_BW = (selected.total_BW > NEG_INF) & (selected.token_BW == EOS)
        at_limit_B1 = (self.beam.max_length_B == t)[:, None]
        truncated_BK = (total_BK > NEG_INF) & at_limit_B1 | self._dead_ends(selected)
        if bool(truncated_BK.any()):
            if bool((truncated_BK & selected.best_BK.isnan()).any()):
                raise SeqloomError(
                    f"the model's log-probabilities at step {t + 1} are NaN: check its weights for NaN or infinity"
                )
            truncated_BK.view(-1)[row_BW[finishes_BW]] = False
            b, k = truncated_BK.nonzero(as_tuple=True)
            row_E = b * truncated_BK.shape[1] + k
            total_E = total_BK[b, k]
            score_E = self._score(total_E, max(t, 1), row_E, b)
            self.history.truncate(self.beam.sentence_B[b], self.node_R[row_E], total_E, score_E)

        if self.scorer.coverage_penalty:
            self._update_coverage(attention_RS)  # EOS has a step with attention, too
        if bool(finishes_BW.any()):
            b, k = finishes_BW.nonzero(as_tuple=True)
            total_E = selected.total_BW[b, k]
            score_E = self._score(total_E, t + 1, row_BW[b, k], b)
            self.history.finish(self.beam.sentence_B[b], b * finishes_BW.shape[1] + k, total_E, score_E)
            score_BW = torch.full_like(selected.total_BW, NEG_INF)
            score_BW[b, k] = score_E.to(score_BW.dtype)
            self.best_scores_BN = (
                torch.cat((self.best_scores_BN, score_BW), 1).topk(self.best_scores_BN.shape[1]).values
            )
            origin_E = self.beam.origin_BK.flatten()[row_BW[b, k]]
            finished_BO = self.beam.finished_BO.index_put((b, origin_E), torch.ones_like(b), accumulate=True)
            self.beam = self.beam._replace(finished_BO=finished_BO)

        if selected.beam_BW is not None and t >= self.first_must_end:
            self._record_best_stopped(selected, row_BW, finishes_BW, at_limit_B1[:, 0])
        active_BW = active_BW & ~at_limit_B1
        best_total_B = selected.total_BW.masked_fill(~active_BW, NEG_INF).amax(1)
        bound_B = self.scorer.apply_length_penalty(best_total_B, self.beam.max_length_B + 1)
        done_B = bound_B <= self.best_scores_BN[:, -1]
        return active_BW & ~done_B[:, None]

    def _record_best_stopped(
        self, selected: Candidates, row_BW: Tensor, finishes_BW: Tensor, at_limit_B: Tensor
    ) -> None:
        """Record the best score among the partial hypotheses that the maximum length stops.

        A row is stopped if its best continuation is not EOS: then ending it with EOS gives a smaller total.
        """
        best_total_BK = self.beam.total_BK + selected.best_BK
        ends_best_BW = finishes_BW & (selected.total_BW >= best_total_BK.flatten()[row_BW])
        best_total_BK.view(-1)[row_BW[ends_best_BW]] = NEG_INF
        best_score_B = self.scorer.apply_length_penalty(best_total_BK.amax(1), self.beam.t + 1)
        self.history.record_best_stopped(self.beam.sentence_B[at_limit_B], best_score_B[at_limit_B])

    def _score(self, total_E: Tensor, n: int, row_E: Tensor, b_E: Tensor) -> Tensor:
        """Scores of hypotheses of n tokens that end in these rows, for the sentences with these indices."""
        score_E = self.scorer.apply_length_penalty(total_E, n)
        if self.scorer.coverage_penalty:
            score_E = score_E + self.scorer.coverage_term(self.past["covered"][row_E], self.memory.mask[b_E])
        return score_E

    def _continue_active(self, state: DecoderState, selected: Candidates, row_X: Tensor, active_BW: Tensor) -> bool:
        """Make the active candidates the rows of the next step, and remove sentences that are done."""
        B, W = active_BW.shape
        count_B = active_BW.sum(1)
        K, sentences = int(count_B.max()), int(count_B.count_nonzero())
        if not sentences:
            return False
        take_BK = torch.arange(B * W, device=row_X.device).view(B, W)
        if K < W:  # move active candidates to the front, and drop the others
            take_BK = take_BK.gather(1, active_BW.byte().argsort(dim=1, descending=True, stable=True)[:, :K])
        if 4 * sentences <= 3 * B:  # selecting copies the memory: only if it saves a quarter of the further work
            active_B = count_B.nonzero().squeeze(1)
            take_BK = take_BK[active_B]
            self._select_sentences(active_B)
        selected = selected._replace(total_BW=selected.total_BW.masked_fill(~active_BW, NEG_INF))
        self._continue_selected(state, selected, row_X, take_BK)
        return True

    def _continue_in_place(self, state: DecoderState, selected: Candidates, row_R: Tensor) -> None:
        """Extend every row by its own candidate: a faster special case of ``_continue_selected``."""
        self.node_R, self.prev_token_R, self.state = row_R, selected.token_BW.flatten(), state
        self.beam = self.beam._replace(t=self.beam.t + 1, total_BK=selected.total_BW, carry_BK=selected.carry_BW)
        self._append_tokens()

    def _continue_selected(self, state: DecoderState, selected: Candidates, row_X: Tensor, take_BK: Tensor) -> None:
        """Make the candidates at the indices ``take_BK`` the rows of the next step."""
        rows = len(self.prev_token_R)
        self.node_R = take_BK.flatten()
        row_R = row_X[self.node_R]
        self.prev_token_R = selected.token_BW.flatten()[self.node_R]
        carry_BW = selected.carry_BW
        self.beam = self.beam._replace(
            t=self.beam.t + 1,
            total_BK=selected.total_BW.flatten()[take_BK],
            origin_BK=self.beam.origin_BK.flatten()[row_R].view_as(take_BK),
            carry_BK=None if carry_BW is None else carry_BW.flatten(0, 1)[take_BK],
        )
        if len(row_R) != rows or not torch.equal(row_R, torch.arange(rows, device=row_R.device)):
            state, self.past = state.select(row_R), self.past.select(row_R)
        self.state = state
        self._append_tokens()

    def _append_tokens(self) -> None:
        """Record the tokens of every row, if constraints need them."""
        if self.constraint_mask is not None:
            self.past["tokens"] = torch.cat((self.past["tokens"], self.prev_token_R[:, None]), 1)

    def _select_sentences(self, index_B: Tensor) -> None:
        """Keep only these sentences in all data stored per sentence."""
        self.memory = self.memory.select(index_B)
        self.best_scores_BN, self.min_length_B = self.best_scores_BN[index_B], self.min_length_B[index_B]
        self.beam = self.beam._replace(
            sentence_B=self.beam.sentence_B[index_B],
            finished_BO=self.beam.finished_BO[index_B],
            max_length_B=self.beam.max_length_B[index_B],
        )
        self._update_length_bounds()
