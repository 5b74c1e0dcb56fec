"""A network and its tokenizers, from text to text: answers, and the log-probabilities of given targets."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from seqloom.batch import UNKNOWN, Batch
from seqloom.data.tokenizers import Cutter, Tokenizer, Tokenizers
from seqloom.decode import Hypothesis, Search
from seqloom.decode.ensemble import Batches, Ensemble
from seqloom.decode.lengths import Limits
from seqloom.decode.protocol import Finder
from seqloom.decode.score import score
from seqloom.decode.trail import Nodes
from seqloom.errors import InputError, OptionError, SentenceError, SizeError
from seqloom.metrics import Answers
from seqloom.predictor.alignment import word_numbers
from seqloom.predictor.answer import BLANK, Answer, Score
from seqloom.predictor.constraints import Constraints
from seqloom.registry import find
from seqloom.trace import Candidates, Recorder, Trace, TracedHypothesis

TOKENS = 6000
"""The padded size of a batch of sources, which bounds the memory that answering takes."""
USUAL_ROWS = 5
"""A search that takes more rows for a sentence gets batches that are smaller by as much."""


@dataclass(frozen=True)
class Predictor:
    """A network with the tokenizers it was trained with, or an ensemble of such networks.

    network: whatever can be searched and scored: an ``Autoregressive`` model, or an ``Ensemble`` of them.
    readers: the source tokenizers of an ensemble's networks, where they differ. There is no attention then to show,
        as each attends to steps of its own.
    """

    network: Any
    tokenizers: Tokenizers
    readers: Sequence[Tokenizer] = ()

    def __post_init__(self) -> None:
        for network in self.networks:  # once: requests may be answered by several threads
            network.eval()

    @property
    def networks(self) -> list[Any]:
        """The network, or those of the ensemble."""
        return list(self.network.models) if isinstance(self.network, Ensemble) else [self.network]

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        network = self.networks[0]
        device: torch.device = network.device if hasattr(network, "device") else next(network.parameters()).device
        return device

    @property
    def limits(self) -> Limits | None:
        """How long outputs may be, judging by the training data; None where it is not known."""
        lengths: Any = self.tokenizers.limits
        return None if lengths is None else Limits(**lengths)

    @property
    def scores_targets(self) -> bool:
        """Whether the network can be asked what it thinks of a target: an engine that searches by itself can't."""
        return not isinstance(self.network, Finder)

    def answers(
        self,
        sources: Sequence[str],
        search: Search,
        *,
        constraints: Constraints | None = None,
        weights: bool = True,
        stop: Callable[[], bool] = lambda: False,
    ) -> list[list[Answer]]:
        """The answers to every source, best first, in the order of the sources; a blank source has a blank one.

        constraints: what answers must begin with, hold and avoid.
        weights: with those of attention.
        stop: asked between batches; if it says so, what is left is answered by nothing.
        """
        reader, writer = self.tokenizers.source, self.tokenizers.target
        ids, *others = self._read(sources)
        if constraints is not None:
            constraints.check_sources(len(ids))
        found: list[list[Answer]] = [[BLANK] if not row else [] for row in ids]
        weights = weights and not self.readers
        for rows in _by_length([len(row) for row in ids], TOKENS * USUAL_ROWS // max(search.rows, USUAL_ROWS)):
            if stop():
                break
            batch = self._batch(rows, [ids, *others])
            masks = None if constraints is None else constraints.masks(rows, writer)
            hypotheses = search(
                self.network, batch, weights=weights, masks=masks, read=writer.decode, limits=self.limits
            )
            for row, best in zip(rows, hypotheses, strict=True):
                read, words = reader.tokens(ids[row]), _word_numbers(ids[row], reader)
                found[row] = [_answer(hypothesis, read, words, writer) for hypothesis in best]
        return found

    def trace(self, source: str, search: Search, *, constraints: Constraints | None = None) -> Trace:
        """One source through the model, everything recorded; the results are those of ``answers``."""
        if not self.scores_targets:
            raise OptionError("this engine searches by itself and shows nothing of it: use PyTorch")
        reader, writer = self.tokenizers.source, self.tokenizers.target
        read = self._read([source])
        if not read[0][0]:
            raise InputError("the source is blank: there is nothing to trace")
        recorder, history = Recorder(), list[Nodes]()
        (best,) = search(
            self.network,
            self._batch([0], read),
            masks=None if constraints is None else constraints.masks([0], writer),
            read=writer.decode,
            limits=self.limits,
            probe=recorder,
            history=history,
        )
        return Trace(
            source=reader.tokens(read[0][0]),
            hypotheses=[
                TracedHypothesis(
                    text=writer.decode(h.tokens),
                    tokens=writer.tokens(h.tokens),
                    log_prob=h.log_prob,
                    token_log_probs=h.token_log_probs,
                    score=h.value,
                    finished=h.finished,
                    rows=h.rows,
                )
                for h in best
            ],
            steps=[
                Candidates(
                    rows=nodes.row_X.tolist(),
                    parents=nodes.parent_X.tolist(),
                    tokens=writer.tokens(nodes.token_X.tolist()),
                    log_probs=nodes.log_prob_X.tolist(),
                )
                for nodes in history
            ],
            activations=recorder.seen,
        )

    def scores(self, sources: Sequence[str], targets: Sequence[str]) -> list[Score]:
        """The model's log-probability of every target, given its source."""
        if not self.scores_targets:
            raise OptionError("this engine finds answers and does not score given ones: use PyTorch, or onnx")
        if len(sources) != len(targets):
            raise SizeError(f"{len(sources)} sources and {len(targets)} targets: each source needs one target")
        (ids, *others), target_ids = self._read(sources), self.tokenizers.target.encode(targets)
        for number, one in enumerate(ids):
            if not one:
                raise SizeError(f"source {number} is empty, and a model can't score what follows from nothing")
        scores: list[Score | None] = [None] * len(sources)
        lengths = [max(len(s), len(t) + 1) for s, t in zip(ids, target_ids, strict=True)]
        for rows in _by_length(lengths, TOKENS):
            batch = self._batch(rows, [ids, *others], target_ids)
            scored = score(self.network, batch)
            logs, right = scored.log_probs.tolist(), scored.correct.sum(1).tolist()
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
        constraints: Constraints | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Answers | None:
        """All that metrics look at: answers by ``search``, and the first reference's log-probability if it is known.

        None if it was stopped.
        """
        answers = self.answers(sources, search, constraints=constraints, weights=False, stop=stop)
        hypotheses = [found[0].text if found else "" for found in answers]
        if stop():
            return None
        lengths = np.array([len(row) for row in self.tokenizers.source.encode(sources)])
        truncated = np.array([bool(found) and not found[0].finished for found in answers])
        if not self.scores_targets:
            return Answers(hypotheses, references, sources, lengths, truncated=truncated)
        scores = self.scores(sources, [refs[0] for refs in references])
        return Answers(
            hypotheses,
            references,
            sources,
            lengths,
            log_probs=np.array([score.log_prob for score in scores]),
            tokens=np.array([len(score.token_log_probs) for score in scores]),
            correct=np.array([score.correct for score in scores]),
            truncated=truncated,
        )

    def _read(self, sources: Sequence[str]) -> list[list[list[int]]]:
        """The ids of all sources, by every reader that there is."""
        read = [reader.encode(sources) for reader in self.readers or [self.tokenizers.source]]
        for row, source in enumerate(sources):
            if not source.strip() or not all(ids[row] for ids in read):  # for one of them it is blank: for all
                for ids in read:
                    ids[row] = []
        for network, all_ids in zip(self.networks, read if self.readers else read * len(self.networks), strict=True):
            _check_lengths(all_ids, network.longest_source)
        return read

    def _batch(
        self, rows: Sequence[int], read: Sequence[Sequence[list[int]]], targets: Sequence[list[int]] | None = None
    ) -> Batches:
        """Some of the sources, and of the targets if there are any, as the network takes them."""
        chosen = None if targets is None else [targets[row] for row in rows]
        batches = [Batch.of(chosen, [ids[row] for row in rows]).to(self.device) for ids in read]
        return batches if self.readers else batches[0]


def _check_lengths(sources: Sequence[list[int]], longest: int | None) -> None:
    """Refuse the first source that goes on behind the last position that a network has learned."""
    for number, ids in enumerate(sources):
        if longest is not None and len(ids) > longest:
            raise SentenceError(
                f"a source of {len(ids)} tokens is too long, as the model knows {longest} positions: "
                "make it shorter, or train with positions: {name: learned, longest: …}, or with sinusoidal ones",
                number,
            )


def _by_length(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """The numbers of the rows that hold something, the longest first, in batches of about so many tokens."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if lengths[row] == 0:
            break
        if batch and (len(batch) + 1) * lengths[batch[0]] > tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _answer(hypothesis: Hypothesis, read: list[str], read_words: list[int], writer: Tokenizer) -> Answer:
    return Answer(
        text=writer.decode(hypothesis.tokens),
        tokens=writer.tokens(hypothesis.tokens),
        log_prob=hypothesis.log_prob,
        token_log_probs=hypothesis.token_log_probs,
        value=hypothesis.value,
        formula=hypothesis.formula,
        finished=hypothesis.finished,
        source_tokens=read,
        weights=hypothesis.weights if hypothesis.on_source else None,
        word_numbers=(read_words, _word_numbers(hypothesis.tokens, writer)),
    )


def _word_numbers(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """For every token the number of its word, where the tokenizer marks words; else each is its own."""
    kind: type[Cutter] = find("tokenizer", tokenizer.spec["name"])
    if not kind.marks_words:
        return list(range(len(ids)))
    shown = zip(ids, tokenizer.tokens(ids), strict=True)
    return word_numbers(kind.unknown if id_ == UNKNOWN else token for id_, token in shown)
