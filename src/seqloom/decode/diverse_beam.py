"""Diverse beam search."""

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from seqloom.batch import EOS
from seqloom.decode.constraints import NEG_INF
from seqloom.decode.lengths import LengthLimits, Ratio
from seqloom.decode.loop import BeamState, Candidates
from seqloom.decode.ranking import HypothesisScorer, LengthPenalty, NonNegativeFloat
from seqloom.decode.search import Search
from seqloom.decode.top import chunked_topk
from seqloom.errors import ConfigError
from seqloom.registry import register


@register("search", "diverse_beam")
class DiverseBeam(Search):
    """Diverse beam search: several beams (groups), each penalized for the tokens of the groups before it.

    At every step group g selects, after the groups before it, by

        log p(y_1 … y_t | source) − λ · number of rows of groups before g that selected y_t at this step

    which is Hamming diversity (Vijayakumar et al. 2018). The penalty affects its step only: hypotheses are ranked by
    their log-probabilities, as in beam search. Groups may still find the same hypothesis; it is then returned twice.

    beam_size: hypotheses kept per sentence, in all groups together.
    groups: number of groups; beam_size must be a multiple of it.
    diversity_penalty: weight λ of the penalty per row with the same token.
    n_best: number of hypotheses returned, the best of all groups, at most beam_size; default: one per group.
    length_penalty: normalization of scores by length: ``none``, ``average`` or ``wu``; see beam search.
    alpha: exponent α of the length penalty ``wu``; default: 0.6.
    coverage_penalty: weight of the coverage penalty for source positions that receive little attention; see beam
        search.
    min_length: minimum number of tokens, EOS not counted.
    max_length: maximum number of tokens, EOS not counted; if neither it nor max_length_ratio is set, it is derived
        from the lengths in the training data.
    min_length_ratio: minimum number of tokens relative to the source length.
    max_length_ratio: maximum number of tokens relative to the source length.
    allow_unk: allow UNK in the output.
    """

    def __init__(
        self,
        *,
        beam_size: PositiveInt = 6,
        groups: PositiveInt = 3,
        diversity_penalty: NonNegativeFloat = 0.5,
        n_best: PositiveInt | None = None,
        length_penalty: LengthPenalty = "average",
        alpha: NonNegativeFloat | None = None,
        coverage_penalty: NonNegativeFloat = 0.0,
        min_length: NonNegativeInt = 0,
        max_length: PositiveInt | None = None,
        min_length_ratio: Ratio = 0.0,
        max_length_ratio: Ratio | None = None,
        allow_unk: bool = True,
    ) -> None:
        if beam_size % groups:
            raise ConfigError(f"beam_size={beam_size} can't be divided into groups={groups}: make it a multiple")
        if n_best is not None and n_best > beam_size:
            raise ConfigError(
                f"n_best={n_best} is greater than beam_size={beam_size}: set beam_size={n_best} or more"
            )
        super().__init__(
            LengthLimits(min_length, max_length, min_length_ratio, max_length_ratio),
            allow_unk,
            initial_rows=groups,
            n_best=n_best or groups,
            scorer=HypothesisScorer(length_penalty, alpha, coverage_penalty=coverage_penalty),
        )
        self.beam_size, self.groups, self.diversity_penalty = beam_size, groups, diversity_penalty
        self.max_rows = beam_size

    def select(self, log_probs_BKV: Tensor, beam: BeamState) -> Candidates:
        group_size = self.beam_size // self.groups
        # At most ``beam_size`` tokens are penalized, so the best ``group_size`` after the penalty are among these.
        log_prob_BKC, token_BKC = chunked_topk(log_probs_BKV, group_size + self.beam_size)
        rank_C = torch.arange(token_BKC.shape[-1], device=token_BKC.device)
        too_long_BKC = (beam.max_length_B == beam.t)[:, None, None] & ((token_BKC != EOS) | (rank_C >= group_size))
        total_BKC = beam.total_BK[..., None] + log_prob_BKC.masked_fill(too_long_BKC, NEG_INF)
        total_BX, token_BX = total_BKC.flatten(1), token_BKC.flatten(1)

        indices, totals, used_BX = [], [], token_BX[:, :0]
        for group in range(self.groups):  # one after another: each depends on the tokens of those before it
            count_BKC = (token_BKC[..., None] == used_BX[:, None, None]).sum(-1)
            other_BK1 = (beam.origin_BK != group)[..., None]
            penalized_BKC = (total_BKC - self.diversity_penalty * count_BKC).masked_fill(other_BK1, NEG_INF)
            penalized_BW, index_BW = chunked_topk(penalized_BKC.flatten(1), group_size)
            rank_W = torch.arange(penalized_BW.shape[1], device=penalized_BW.device)
            no_slot_BW = rank_W >= group_size - beam.finished_BO[:, group, None]
            none_BW = no_slot_BW | (penalized_BW == NEG_INF)
            indices.append(index_BW)
            totals.append(total_BX.gather(1, index_BW).masked_fill(none_BW, NEG_INF))
            used_BX = torch.cat((used_BX, token_BX.gather(1, index_BW).masked_fill(none_BW, -1)), 1)
        index_BW = torch.cat(indices, 1)
        return Candidates(
            index_BW // token_BKC.shape[-1],
            token_BX.gather(1, index_BW),
            torch.cat(totals, 1),
            log_prob_BKC[..., 0],
        )
