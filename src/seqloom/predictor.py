"""A network and its tokenizers, from text to text: answers, and the log-probabilities of given targets."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from seqloom.batch import Batch
from seqloom.data.tokenizers import Tokenizer, Tokenizers
from seqloom.decode import Hypothesis, Search
from seqloom.decode.score import score
from seqloom.errors import SizeError
from seqloom.metrics import Answers
from seqloom.models.base import Autoregressive

TOKENS = 6000
"""The padded size of a batch of sources, which bounds the memory that answering takes."""


@dataclass(frozen=True)
class Answer:
    """One answer to one source.

    text: what to show. tokens: the same as the model wrote it, END left out.
    log_prob: of the whole answer, END included. token_log_probs: of each of its tokens, and of END.
    value: what the search compared, by its ``formula``.
    finished: False where the maximum length cut it off.
    source_tokens: what the model read.
    weights: attention, one row per token written (END too), one column per source token; None without attention.
    """

    text: str
    tokens: list[str]
    log_prob: float
    token_log_probs: list[float]
    value: float
    formula: str
    finished: bool
    source_tokens: list[str]
    weights: Tensor | None = field(repr=False)


@dataclass(frozen=True)
class Score:
    """The model's log-probability of a given target, in sum and by token, END included."""

    log_prob: float
    tokens: list[str]
    token_log_probs: list[float]
    correct: int


@dataclass(frozen=True)
class Predictor:
    """A network with the tokenizers it was trained with."""

    network: Autoregressive
    tokenizers: Tokenizers

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    def answers(
        self,
        sources: Sequence[str],
        search: Search,
        *,
        weights: bool = True,
        stop: Callable[[], bool] = lambda: False,
    ) -> list[list[Answer]]:
        """The answers to every source, best first, in the order of the sources; a blank source has a blank one.

        weights: with those of attention.
        stop: asked between batches; if it says so, what is left is answered by nothing.
        """
        encode, reader = self.tokenizers.source.encode, self.tokenizers.source
        ids = encode(sources)
        found: list[list[Answer]] = [[BLANK] if not row else [] for row in ids]
        self.network.eval()
        for rows in _by_length([len(row) for row in ids]):
            if stop():
                break
            batch = Batch.of(sources=[ids[row] for row in rows]).to(self.device)
            for row, hypotheses in zip(rows, search(self.network, batch, weights=weights), strict=True):
                read = reader.tokens(ids[row])
                found[row] = [_answer(h, read, self.tokenizers.target) for h in hypotheses]
        return found

    def scores(self, sources: Sequence[str], targets: Sequence[str]) -> list[Score]:
        """The model's log-probability of every target, given its source."""
        if len(sources) != len(targets):
            raise SizeError(f"{len(sources)} sources and {len(targets)} targets: each source needs one target")
        source_ids, target_ids = self.tokenizers.source.encode(sources), self.tokenizers.target.encode(targets)
        for number, ids in enumerate(source_ids):
            if not ids:
                raise SizeError(f"source {number} is empty, and a model can't score what follows from nothing")
        scores: list[Score | None] = [None] * len(sources)
        lengths = [max(len(s), len(t) + 1) for s, t in zip(source_ids, target_ids, strict=True)]
        self.network.eval()
        for rows in _by_length(lengths):
            batch = Batch.of([target_ids[r] for r in rows], [source_ids[r] for r in rows]).to(self.device)
            scored = score(self.network, batch)
            logs, right = scored.log_probs.tolist(), (scored.correct & scored.mask).sum(1).tolist()
            for row, log_probs, correct in zip(rows, logs, right, strict=True):
                real = log_probs[: len(target_ids[row]) + 1]
                scores[row] = Score(sum(real), self.tokenizers.target.tokens(target_ids[row]), real, int(correct))
        return [score for score in scores if score is not None]

    def judged(
        self,
        sources: Sequence[str],
        references: Sequence[Sequence[str]],
        search: Search,
        *,
        stop: Callable[[], bool] = lambda: False,
    ) -> Answers | None:
        """All that metrics look at: answers by ``search``, and the first reference's log-probability.

        None if it was stopped.
        """
        hypotheses = [
            found[0].text if found else "" for found in self.answers(sources, search, weights=False, stop=stop)
        ]
        if stop():
            return None
        scores = self.scores(sources, [refs[0] for refs in references])
        return Answers(
            hypotheses=hypotheses,
            references=references,
            sources=sources,
            source_lengths=np.array([len(row) for row in self.tokenizers.source.encode(sources)]),
            log_probs=np.array([score.log_prob for score in scores]),
            tokens=np.array([len(score.token_log_probs) for score in scores]),
            correct=np.array([score.correct for score in scores]),
        )


def _by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of the rows that hold something, the longest first, in batches of about equal size."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if lengths[row] == 0:
            break
        if batch and (len(batch) + 1) * lengths[batch[0]] > TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _answer(hypothesis: Hypothesis, read: list[str], writer: Tokenizer) -> Answer:
    return Answer(
        text=writer.decode(hypothesis.tokens),
        tokens=writer.tokens(hypothesis.tokens),
        log_prob=hypothesis.log_prob,
        token_log_probs=hypothesis.token_log_probs,
        value=hypothesis.value,
        formula=hypothesis.formula,
        finished=hypothesis.finished,
        source_tokens=read,
        weights=hypothesis.weights,
    )


BLANK = Answer("", [], 0.0, [], 0.0, "none: the source is blank", True, [], None)
