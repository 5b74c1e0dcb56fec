"""What a search is."""

import torch
from torch import Tensor

from seqloom.batch import PAD, START, UNKNOWN, Batch
from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.lengths import Lengths
from seqloom.decode.normalisation import Normalisation
from seqloom.decode.protocol import Searched, check_in_use
from seqloom.decode.walk import Choice, Rows, Walk


class Search:
    """A way to find answers: ``search(model, batch)`` gives a list of them for every sentence, best first.

    A kind of search writes only ``choose``; the loop around it is ``Walk``. PAD and START are never in an answer.

    lengths: how short and how long answers may be.
    unknown: whether an answer may have UNKNOWN in it.
    starts: how many rows a sentence begins with.
    n_best: how many answers are given, if there are as many.
    normalisation: what they are ranked by.
    """

    def __init__(
        self,
        lengths: Lengths,
        unknown: bool,
        *,
        starts: int = 1,
        n_best: int = 1,
        normalisation: Normalisation | None = None,
    ) -> None:
        self.lengths = lengths
        self.never = [PAD, START] if unknown else [PAD, START, UNKNOWN]
        self.starts = starts
        self.n_best = n_best
        self.normalisation = normalisation or Normalisation()

    def choose(self, log_probs_BKV: Tensor, rows: Rows) -> Choice:
        """What goes on, given the log-probabilities of all that may follow each row (−∞: it may not)."""
        raise NotImplementedError

    def __call__(self, model: Searched, batch: Batch, *, weights: bool = True) -> list[list[Hypothesis]]:
        """The answers to every source of the batch; ``weights``: with those of attention, where there are any."""
        check_in_use(model)
        with torch.inference_mode():
            walk = Walk(
                model,
                batch,
                choose=self.choose,
                starts=self.starts,
                n_best=self.n_best,
                normalisation=self.normalisation,
                lengths=self.lengths,
                never=self.never,
                weights=weights,
            )
            mask_BS = walk.memory.mask
            trail = walk.run()
        return trail.hypotheses(self.n_best, self.normalisation.formula, mask_BS)
