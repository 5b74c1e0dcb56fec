"""Lexical constraints: beam search that reserves slots for hypotheses that have met more of them.

Dynamic beam allocation (Post and Vilar 2018), vectorized over sentences (Hu et al. 2019).
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.batch import EOS, PAD
from seqloom.decode.constraints import NEG_INF, Phrase
from seqloom.decode.loop import BeamState, Candidates
from seqloom.decode.top import chunked_topk


class DynamicBeamAllocation:
    """Beam search whose slots are divided among *banks*: hypotheses with the same number of required tokens.

    Every row proposes its most likely tokens and, however unlikely, the next token of each unmet phrase; it proposes
    EOS only if all phrases are met. For m required tokens there are m + 1 banks. Each gets the same share of the
    slots for its best candidates; unused slots are divided among the other banks in the same way, starting with the
    bank that has met most.

    The progress of a row is in matched[c, l]: whether its last l + 1 tokens are the first l + 1 tokens of phrase c. A
    token that continues such a match extends it by one, and a token that starts a phrase starts a match; a complete
    match is kept.

    required: the required phrases of every sentence.
    beam_size: hypotheses kept per sentence.
    """

    def __init__(self, required: Sequence[Sequence[Phrase]], beam_size: int) -> None:
        self.beam_size = beam_size
        C = max(len(phrases) for phrases in required)
        L = max(len(phrase) for phrases in required for phrase in phrases)
        # −1, which is not a token, pads phrases; a sentence with fewer phrases gets empty ones, which are always met.
        padded = [
            [[*p, *[-1] * (L - len(p))] for p in [*phrases, *[[]] * (C - len(phrases))]] for phrases in required
        ]
        self.phrase_BCL = torch.tensor(padded)

    def select(self, log_probs_BKV: Tensor, beam: BeamState) -> Candidates:
        """Select the continuations: a ``Select`` that carries ``matched``."""
        B, K = beam.total_BK.shape
        phrase_BCL = self.phrase_BCL.to(log_probs_BKV.device)[beam.sentence_B]
        C, L = phrase_BCL.shape[1:]
        length_BC = (phrase_BCL >= 0).sum(-1)
        required_B = length_BC.sum(1)
        matched_BKCL = beam.carry_BK
        if matched_BKCL is None:
            matched_BKCL = phrase_BCL.new_zeros((B, K, C, L), dtype=torch.bool)
        progress_BKC = _progress(matched_BKCL)
        unmet_BKC = progress_BKC < length_BC[:, None]
        unmet_BK1 = unmet_BKC.any(-1, keepdim=True)
        log_probs_BKV[..., EOS].masked_fill_(unmet_BK1[..., 0], NEG_INF)

        # Candidates X of every row: the most likely tokens, then the next tokens of unmet phrases; EOS if there were
        # phrases and all are met. The rest is filled with PAD, which is impossible.
        log_prob_BKW, token_BKW = chunked_topk(log_probs_BKV, self.beam_size)
        next_BKC1 = progress_BKC.clamp(max=L - 1)[..., None]
        next_BKC = phrase_BCL[:, None].expand_as(matched_BKCL).gather(3, next_BKC1)[..., 0]
        met_BK1 = ~unmet_BK1 & (required_B > 0)[:, None, None]
        token_BKX = torch.cat((token_BKW, next_BKC.where(unmet_BKC, torch.where(met_BK1, EOS, PAD))), 2)
        duplicate_BKX = (token_BKX[..., :, None] == token_BKX[..., None, :]).tril(-1).any(-1)
        too_long_BKX = (beam.max_length_B == beam.t)[:, None, None] & (token_BKX != EOS)
        log_prob_BKX = log_probs_BKV.gather(2, token_BKX).masked_fill(duplicate_BKX | too_long_BKX, NEG_INF)
        total_BX = (beam.total_BK[..., None] + log_prob_BKX).flatten(1)

        matched_BXCL = _extend_matches(matched_BKCL, token_BKX, phrase_BCL, length_BC).flatten(1, 2)
        free_B = self.beam_size - beam.finished_BO[:, 0]
        bank_BX = _bank(_progress(matched_BXCL), length_BC)
        index_BW = _allocate(total_BX, bank_BX, required_B, free_B, self.beam_size)
        no_slot_BW = torch.arange(index_BW.shape[1], device=index_BW.device) >= free_B[:, None]
        return Candidates(
            index_BW // token_BKX.shape[-1],
            token_BKX.flatten(1).gather(1, index_BW),
            total_BX.gather(1, index_BW).masked_fill(no_slot_BW, NEG_INF),
            log_prob_BKW[..., 0],
            matched_BXCL[torch.arange(B, device=index_BW.device)[:, None], index_BW],
        )


def _progress(matched_XCL: Tensor) -> Tensor:
    """Number of matched tokens of each phrase: its longest match."""
    return (matched_XCL * torch.arange(1, matched_XCL.shape[-1] + 1, device=matched_XCL.device)).amax(-1)


def _bank(progress_BXC: Tensor, length_BC: Tensor) -> Tensor:
    """The number of tokens of all phrases that are met, plus those of the longest match among the others.

    If all partial matches counted, the next token of one phrase could break an equally long match of another, and a
    beam could stay in one bank for ever. The next token of the longest match always leads to a higher bank.
    """
    met_BXC = progress_BXC == length_BC[:, None]
    return (progress_BXC * met_BXC).sum(-1) + (progress_BXC * ~met_BXC).amax(-1)


def _extend_matches(matched_BKCL: Tensor, token_BKX: Tensor, phrase_BCL: Tensor, length_BC: Tensor) -> Tensor:
    """``matched`` after each candidate token, B K X C L."""
    extendable_BKCL = F.pad(matched_BKCL[..., :-1], (1, 0), value=True)
    equal_BKXCL = token_BKX[..., None, None] == phrase_BCL[:, None, None]
    end_BCL = F.one_hot((length_BC - 1).clamp(min=0), phrase_BCL.shape[2]).bool()
    return (extendable_BKCL[:, :, None] & equal_BKXCL) | (matched_BKCL & end_BCL[:, None])[:, :, None]


def _allocate(total_BX: Tensor, bank_BX: Tensor, highest_B: Tensor, free_B: Tensor, beam_size: int) -> Tensor:
    """Allocate the slots: from the highest bank down, each bank fills its share; repeat until no slots are left."""
    order_BX = total_BX.argsort(dim=1, descending=True, stable=True)
    bank_BX = bank_BX.gather(1, order_BX)
    rank_BX = F.one_hot(bank_BX, int(highest_B.max()) + 1).cumsum(1).gather(2, bank_BX[..., None])[..., 0] - 1
    share_B1 = (free_B // (highest_B + 1)).clamp(min=1)[:, None]
    turn_BX = rank_BX // share_B1 * (highest_B + 1)[:, None] + highest_B[:, None] - bank_BX
    impossible_BX = ~(total_BX.gather(1, order_BX) > NEG_INF)
    turn_BX = turn_BX.masked_fill(impossible_BX, torch.iinfo(turn_BX.dtype).max)
    return order_BX.gather(1, turn_BX.argsort(dim=1, stable=True)[:, :beam_size])
