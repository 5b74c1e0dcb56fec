"""Words that must be said: beam search that keeps places for beginnings that have said more of them.

Dynamic beam allocation (Post and Vilar 2018), for all sentences at once (Hu et al. 2019).
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.batch import END, PAD
from seqloom.decode.masks import IMPOSSIBLE, Phrase
from seqloom.decode.top import best
from seqloom.decode.walk import Choice, Rows


class Allocated:
    """Beam search whose places are dealt out to *banks*: beginnings that have said equally much of what is required.

    Every row offers its likeliest tokens and, likely or not, the next token of each phrase it still owes; END when it
    owes none, and not before. For m required tokens there are m + 1 banks, and each has the same share of the places
    for its best; what one leaves empty the others fill, in the same shares and those that owe least first.

    How far a row is with its phrases is in alive[c, l]: whether the last l + 1 tokens are the first of phrase c. A
    token that continues some of these keeps them alive one further, and one that begins a phrase makes its first
    alive; a phrase that was said to its end stays so.

    required: the phrases of every sentence.
    width: of the beam.
    """

    def __init__(self, required: Sequence[Sequence[Phrase]], width: int) -> None:
        self.width = width
        C = max(len(phrases) for phrases in required)
        L = max(len(phrase) for phrases in required for phrase in phrases)
        # −1, which is no token, fills phrases up; a sentence with fewer phrases has some of no token, which are said.
        filled = [
            [[*p, *[-1] * (L - len(p))] for p in [*phrases, *[[]] * (C - len(phrases))]] for phrases in required
        ]
        self.phrase_BCL = torch.tensor(filled)

    def choose(self, log_probs_BKV: Tensor, rows: Rows) -> Choice:
        """What goes on: a ``Choose`` that carries ``alive``."""
        B, K = rows.total_BK.shape
        phrase_BCL = self.phrase_BCL.to(log_probs_BKV.device)[rows.sentence_B]
        C, L = phrase_BCL.shape[1:]
        length_BC = (phrase_BCL >= 0).sum(-1)
        owed_B = length_BC.sum(1)
        alive_BKCL = rows.carry_BK
        if alive_BKCL is None:
            alive_BKCL = phrase_BCL.new_zeros((B, K, C, L), dtype=torch.bool)
        said_BKC = _said(alive_BKCL)
        owes_BKC = said_BKC < length_BC[:, None]
        owes_BK1 = owes_BKC.any(-1, keepdim=True)
        log_probs_BKV[..., END].masked_fill_(owes_BK1[..., 0], IMPOSSIBLE)

        # Candidates X of every row: the likeliest, and what it owes; END if it owed something and no longer does.
        # What is left of the table is filled by PAD, which is impossible.
        log_prob_BKW, token_BKW = best(log_probs_BKV, self.width)
        at_BKC1 = said_BKC.clamp(max=L - 1)[..., None]
        next_BKC = phrase_BCL[:, None].expand_as(alive_BKCL).gather(3, at_BKC1)[..., 0]
        done_BK1 = ~owes_BK1 & (owed_B > 0)[:, None, None]
        token_BKX = torch.cat((token_BKW, next_BKC.where(owes_BKC, torch.where(done_BK1, END, PAD))), 2)
        again_BKX = (token_BKX[..., :, None] == token_BKX[..., None, :]).tril(-1).any(-1)
        too_long_BKX = (rows.most_B == rows.t)[:, None, None] & (token_BKX != END)
        log_prob_BKX = log_probs_BKV.gather(2, token_BKX).masked_fill(again_BKX | too_long_BKX, IMPOSSIBLE)
        total_BX = (rows.total_BK[..., None] + log_prob_BKX).flatten(1)

        alive_BXCL = _after(alive_BKCL, token_BKX, phrase_BCL, length_BC).flatten(1, 2)
        free_B = self.width - rows.finished_BO[:, 0]
        place_BW = _allocate(total_BX, _bank(_said(alive_BXCL), length_BC), owed_B, free_B, self.width)
        taken_BW = torch.arange(place_BW.shape[1], device=place_BW.device) >= free_B[:, None]
        return Choice(
            place_BW // token_BKX.shape[-1],
            token_BKX.flatten(1).gather(1, place_BW),
            total_BX.gather(1, place_BW).masked_fill(taken_BW, IMPOSSIBLE),
            log_prob_BKW[..., 0],
            alive_BXCL[torch.arange(B, device=place_BW.device)[:, None], place_BW],
        )


def _said(alive_XCL: Tensor) -> Tensor:
    """How many tokens of each phrase have been said, at its furthest."""
    return (alive_XCL * torch.arange(1, alive_XCL.shape[-1] + 1, device=alive_XCL.device)).amax(-1)


def _bank(said_BXC: Tensor, length_BC: Tensor) -> Tensor:
    """The tokens of all phrases that are said to their end, and of the one that is furthest beside them.

    If all that are under way counted, saying the next token of one could lose as much of another, and a beam could
    go on for ever in one bank. Of the furthest it always leads into a higher one.
    """
    whole_BXC = said_BXC == length_BC[:, None]
    return (said_BXC * whole_BXC).sum(-1) + (said_BXC * ~whole_BXC).amax(-1)


def _after(alive_BKCL: Tensor, token_BKX: Tensor, phrase_BCL: Tensor, length_BC: Tensor) -> Tensor:
    """What is alive after each candidate token, B K X C L."""
    ready_BKCL = F.pad(alive_BKCL[..., :-1], (1, 0), value=True)
    fits_BKXCL = token_BKX[..., None, None] == phrase_BCL[:, None, None]
    end_BCL = F.one_hot((length_BC - 1).clamp(min=0), phrase_BCL.shape[2]).bool()
    return (ready_BKCL[:, :, None] & fits_BKXCL) | (alive_BKCL & end_BCL[:, None])[:, :, None]


def _allocate(total_BX: Tensor, bank_BX: Tensor, highest_B: Tensor, free_B: Tensor, width: int) -> Tensor:
    """The candidates that get the places: from the highest bank down each its share, over and over."""
    order_BX = total_BX.argsort(dim=1, descending=True, stable=True)
    bank_BX = bank_BX.gather(1, order_BX)
    rank_BX = F.one_hot(bank_BX, int(highest_B.max()) + 1).cumsum(1).gather(2, bank_BX[..., None])[..., 0] - 1
    share_B1 = (free_B // (highest_B + 1)).clamp(min=1)[:, None]
    turn_BX = rank_BX // share_B1 * (highest_B + 1)[:, None] + highest_B[:, None] - bank_BX
    impossible_BX = ~(total_BX.gather(1, order_BX) > IMPOSSIBLE)
    turn_BX = turn_BX.masked_fill(impossible_BX, torch.iinfo(turn_BX.dtype).max)
    return order_BX.gather(1, turn_BX.argsort(dim=1, stable=True)[:, :width])
