"""What a search is."""

from collections.abc import Callable
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from seqloom.batch import PAD, START, UNKNOWN
from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.lengths import Lengths, Limits
from seqloom.decode.masks import Masks
from seqloom.decode.protocol import Finder, StepModel, check_in_use
from seqloom.decode.ranking import Ranking
from seqloom.decode.trail import Nodes
from seqloom.decode.walk import Choice, Choose, Rows, Walk
from seqloom.errors import OptionError
from seqloom.nn.probe import Probe, silent

Asked = TypeVar("Asked")
Read = Callable[[int, list[int]], str]
"""From the number of a sentence in the batch, and tokens of an answer to it, to the text that they are."""


class Search:
    """A way to find answers: ``search(model, batch)`` gives a list of them for every sentence, best first.

    A kind of search writes only ``choose``; the loop around it is ``Walk``. PAD and START are never in an answer.

    lengths: how short and how long answers may be.
    unknown: whether an answer may have UNKNOWN in it.
    starts: how many rows a sentence begins with.
    n_best: how many hypotheses are found, if there are as many; ``answers``: how many of them are given, which are
        fewer where a search draws more than it gives.
    rows: how many rows of a batch a sentence takes at most.
    ranking: what they are ranked by.
    """

    formula: ClassVar[str | None] = None
    """How an answer's value is made, where it is not as the ranking says."""

    def __init__(
        self,
        lengths: Lengths,
        unknown: bool,
        *,
        starts: int = 1,
        n_best: int = 1,
        ranking: Ranking | None = None,
    ) -> None:
        self.lengths = lengths
        self.never = [PAD, START] if unknown else [PAD, START, UNKNOWN]
        self.starts = starts
        self.n_best = self.answers = n_best
        self.rows = max(starts, n_best)
        self.ranking = ranking or Ranking()

    def choose(self, log_probs_BKV: Tensor, rows: Rows) -> Choice:
        """What goes on, given the log-probabilities of all that may follow each row (−∞: it may not)."""
        raise NotImplementedError

    def strategy(self, masks: Masks) -> Choose:
        """``choose``, or what takes its place where these masks are asked for."""
        if masks.requires:
            raise OptionError(
                f"search {type(self).__name__.lower()!r} can't see to it that required words are said: that takes "
                "places kept for them in a beam; use search 'beam'"
            )
        return self.choose

    def __call__(
        self,
        model: StepModel[Asked] | Finder,
        batch: Asked,
        *,
        weights: bool = True,
        masks: Masks | None = None,
        read: Read | None = None,
        limits: Limits | None = None,
        probe: Probe = silent,
        history: list[Nodes] | None = None,
    ) -> list[list[Hypothesis]]:
        """The answers to every source of the batch.

        weights: with those of attention, where there are any.
        masks: what answers must begin with, hold and avoid.
        read: how tokens become text, for a search that judges by text.
        limits: how long outputs are in the training data: the maximum where no option sets one.
        probe: sees the model's activations, their names with the number of the step.
        history: where the candidates of every step are left, if wanted.
        """
        masks = masks or Masks()
        if isinstance(model, Finder):
            return model.found(self, batch, weights=weights, masks=masks, limits=limits)
        check_in_use(model)
        with torch.inference_mode():
            walk = Walk(
                model,
                batch,
                choose=self.strategy(masks),
                starts=self.starts,
                n_best=self.n_best,
                ranking=self.ranking,
                lengths=self.lengths,
                limits=limits,
                never=self.never,
                masks=masks,
                weights=weights,
                probe=probe,
            )
            mask_BS = walk.memory.mask  # of all sentences, as long as they are all there
            trail = walk.run()
        if history is not None:
            history += trail.steps
        formula = self.formula or self.ranking.formula
        if masks.repetition_penalty != 1:
            formula += ", log_prob after the repetition penalty"
        return trail.hypotheses(self.n_best, formula, mask_BS, on_source=model.attends_to == "source")
