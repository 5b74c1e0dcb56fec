"""The base class of all searches (decoding strategies)."""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from seqloom.batch import BOS, PAD, UNK
from seqloom.decode.constraints import TokenConstraints
from seqloom.decode.history import BackPointers
from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.lengths import LengthLimits, TrainingLengths
from seqloom.decode.loop import BeamState, Candidates, DecodingLoop, Select
from seqloom.decode.protocol import BatchT, SearchEngine, StepModel, require_eval_mode
from seqloom.decode.ranking import HypothesisScorer
from seqloom.errors import ConfigError
from seqloom.nn.probe import Probe, no_probe
from seqloom.registry import parts

Detokenize = Callable[[int, list[int]], str]
"""Converts token ids to text, given the index of their sentence in the batch."""


class Search:
    """A decoding strategy: ``search(model, batch)`` returns a list of hypotheses per sentence, best first.

    A subclass implements only ``select``; ``DecodingLoop`` does the rest. PAD and BOS never occur in a hypothesis.

    lengths: minimum and maximum length of hypotheses.
    allow_unk: allow UNK in the output.
    initial_rows: number of rows per sentence at the first step.
    n_best: number of hypotheses returned; ``n_found`` is the number found, which is greater where a search draws
        more hypotheses than it returns.
    max_rows: maximum number of rows per sentence in a batch.
    scorer: computes the score by which hypotheses are ranked.
    """

    score_formula: ClassVar[str | None] = None
    """How the score of a hypothesis is computed, if not by the scorer alone."""

    def __init__(
        self,
        lengths: LengthLimits,
        allow_unk: bool,
        *,
        initial_rows: int = 1,
        n_best: int = 1,
        scorer: HypothesisScorer | None = None,
    ) -> None:
        self.lengths = lengths
        self.suppressed_tokens = [PAD, BOS] if allow_unk else [PAD, BOS, UNK]
        self.initial_rows = initial_rows
        self.n_found = self.n_best = n_best
        self.max_rows = max(initial_rows, n_best)
        self.scorer = scorer or HypothesisScorer()

    def select(self, log_probs_BKV: Tensor, beam: BeamState) -> Candidates:
        """Select the continuations, given the log-probabilities of every row's next token (−∞: not allowed)."""
        raise NotImplementedError

    def select_function(self, constraints: TokenConstraints) -> Select:
        """``select``, or its replacement under these constraints."""
        if constraints.requires:
            names = {part: name for name, part in parts("search").items()}
            raise ConfigError(
                f"search {names.get(type(self), type(self).__name__)!r} does not support require (lexical "
                "constraints): use search 'beam'"
            )
        return self.select

    def __call__(
        self,
        model: StepModel[BatchT] | SearchEngine,
        batch: BatchT,
        *,
        return_attention: bool = True,
        constraints: TokenConstraints | None = None,
        detokenize: Detokenize | None = None,
        training_lengths: TrainingLengths | None = None,
        probe: Probe = no_probe,
        history: list[BackPointers] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses for every source of the batch.

        return_attention: return attention weights, if the model has attention.
        constraints: what hypotheses must start with, contain and avoid.
        detokenize: converts token ids to text, given the index of their sentence, for a search that compares texts.
        training_lengths: lengths in the training data: they set the maximum length if no option does.
        probe: called with the model's activations; their names end with the number of the step.
        history: a list to which the candidates of every step are appended.
        """
        constraints = constraints or TokenConstraints()
        if isinstance(model, SearchEngine):
            return model.search(
                self,
                batch,
                return_attention=return_attention,
                constraints=constraints,
                training_lengths=training_lengths,
            )
        require_eval_mode(model)
        with torch.inference_mode():
            loop = DecodingLoop(
                model,
                batch,
                select=self.select_function(constraints),
                initial_rows=self.initial_rows,
                n_best=self.n_found,
                scorer=self.scorer,
                lengths=self.lengths,
                training_lengths=training_lengths,
                suppressed_tokens=self.suppressed_tokens,
                constraints=constraints,
                return_attention=return_attention,
                probe=probe,
            )
            mask_BS = loop.memory.mask  # of all sentences: the loop removes those that are done
            found = loop.run()
        if history is not None:
            history += found.steps
        score_formula = self.score_formula or self.scorer.score_formula
        if constraints.repetition_penalty != 1:
            score_formula += ", log_prob after the repetition penalty"
        return found.hypotheses(self.n_found, score_formula, mask_BS, on_source=model.attends_to == "source")
