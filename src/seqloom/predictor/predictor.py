"""A network and its fields, from values to values: answers, and the log-probabilities of given targets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from seqloom.batch import Batch
from seqloom.data.examples import Example, is_blank
from seqloom.data.fields import Fields
from seqloom.data.pad import Array, pad
from seqloom.decode import Search
from seqloom.decode.ensemble import Ensemble
from seqloom.decode.lengths import Limits
from seqloom.decode.protocol import Finder
from seqloom.decode.rollout import rollout, rolls_out
from seqloom.decode.score import score
from seqloom.decode.trail import Nodes
from seqloom.errors import InputError, OptionError, SentenceError, SizeError
from seqloom.metrics import Answers
from seqloom.predictor.answer import BLANK, Answer, Score
from seqloom.predictor.constraints import Constraints
from seqloom.predictor.results import answers_of, as_row, tokenizer_of
from seqloom.trace import Candidates, Recorder, Trace, TracedHypothesis

TOKENS = 6000
"""The padded size of a batch of sources, which bounds the memory that answering takes."""
USUAL_ROWS = 5
"""A search that takes more rows for a sentence gets batches that are smaller by as much."""
Inputs = dict[str, list[Array]]
"""What a network reads: a row of every example, by field."""


@dataclass(frozen=True)
class Predictor:
    """A network with the fields it was trained with, or an ensemble of such networks.

    An example to predict is a mapping with a value for every input, or the value of the source alone.

    network: whatever can be searched and scored: an ``Autoregressive`` model, or an ``Ensemble`` of them. A model
        that writes no tokens is rolled out.
    readers: the fields of an ensemble's networks, where their inputs differ. There is no attention then to show, as
        each attends to steps of its own.
    """

    network: Any
    fields: Fields
    readers: Sequence[Fields] = ()

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
        lengths: Any = self.fields.limits
        return None if lengths is None else Limits(**lengths)

    @property
    def rolls_out(self) -> bool:
        """Whether the network writes values that are not tokens: there is nothing to search or to score."""
        return rolls_out(self.network)

    @property
    def scores_targets(self) -> bool:
        """Whether the network can be asked what it thinks of a target: an engine that searches by itself can't."""
        return not isinstance(self.network, Finder) and not self.rolls_out

    def answers(
        self,
        examples: Sequence[Any],
        search: Search,
        *,
        constraints: Constraints | None = None,
        weights: bool = True,
        stop: Callable[[], bool] = lambda: False,
    ) -> list[list[Answer]]:
        """The answers to every example, best first, in their order; a blank source has a blank one.

        search: where results are rolled out, only its lengths count.
        constraints: what answers must begin with, hold and avoid.
        weights: with those of attention.
        stop: asked between batches; if it says so, what is left is answered by nothing.
        """
        given = as_examples(examples)
        read = self._read(given)
        sources = read[0]["source"]
        if constraints is not None:
            constraints.check_sources(len(given))
        found: list[list[Answer]] = [[] if len(row) else [BLANK] for row in sources]
        most = TOKENS * USUAL_ROWS // max(search.rows, USUAL_ROWS)
        for rows in _by_length([len(row) for row in sources], most):
            if stop():
                break
            batch = self._batch(rows, read)
            masks = None if constraints is None else constraints.masks(rows, tokenizer_of(self.fields["target"]))
            if self.rolls_out:
                hypotheses = rollout(self.network, batch, lengths=search.lengths, limits=self.limits)
            else:
                hypotheses = search(
                    self.network,
                    batch,
                    weights=weights and not self.readers,
                    masks=masks,
                    read=partial(self._text, [given[row] for row in rows]),
                    limits=self.limits,
                )
            for row, best in zip(rows, hypotheses, strict=True):
                found[row] = answers_of(best, self.fields, sources[row], given[row])
        return found

    def trace(self, example: Any, search: Search, *, constraints: Constraints | None = None) -> Trace:
        """One example through the model, everything recorded; the results are those of ``answers``."""
        if not self.scores_targets:
            raise OptionError(
                "this model writes no tokens, and there is no search to trace"
                if self.rolls_out
                else "this engine searches by itself and shows nothing of it: use PyTorch"
            )
        reader, writer = self.fields["source"], self.fields["target"]
        given = as_examples([example])
        read = self._read(given)
        if not len(read[0]["source"][0]):
            raise InputError("the source is blank: there is nothing to trace")
        recorder, history = Recorder(), list[Nodes]()
        (best,) = search(
            self.network,
            self._batch([0], read),
            masks=None if constraints is None else constraints.masks([0], tokenizer_of(writer)),
            read=partial(self._text, given),
            limits=self.limits,
            probe=recorder,
            history=history,
        )
        return Trace(
            source=reader.show(read[0]["source"][0]),
            hypotheses=[
                TracedHypothesis(
                    text=writer.decode(as_row(h.tokens, writer), given[0]),
                    tokens=writer.show(as_row(h.tokens, writer)),
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
                    tokens=writer.show(nodes.token_X.cpu().numpy()),
                    log_probs=nodes.log_prob_X.tolist(),
                )
                for nodes in history
            ],
            activations=recorder.seen,
        )

    def scores(self, examples: Sequence[Any], targets: Sequence[Any]) -> list[Score]:
        """The model's log-probability of every target, given its example."""
        if not self.scores_targets:
            raise OptionError(
                "this model writes values that are not tokens: there is nothing to score"
                if self.rolls_out
                else "this engine finds answers and does not score given ones: use PyTorch, or onnx"
            )
        if len(examples) != len(targets):
            raise SizeError(f"{len(examples)} sources and {len(targets)} targets: each source needs one target")
        given = [
            {**example, "target": target} for example, target in zip(as_examples(examples), targets, strict=True)
        ]
        writer, read = self.fields["target"], self._read(given)
        target_rows = self.fields.encode("target", given)
        for number, source in enumerate(read[0]["source"]):
            if not len(source):
                raise SizeError(f"source {number} is empty, and a model can't score what follows from nothing")
        scores: list[Score | None] = [None] * len(given)
        lengths = [max(len(s), len(t)) for s, t in zip(read[0]["source"], target_rows, strict=True)]
        for rows in _by_length(lengths, TOKENS):
            scored = score(self.network, self._batch(rows, [{**inputs, "target": target_rows} for inputs in read]))
            logs, right = scored.log_probs.tolist(), scored.correct.sum(1).tolist()
            for row, log_probs, correct in zip(rows, logs, right, strict=True):
                target = target_rows[row]
                real, shown = log_probs[: len(target)], writer.show(target[: len(target) - writer.end_steps])
                scores[row] = Score(sum(real), shown, real, int(correct))
        return [score for score in scores if score is not None]

    def judged(
        self,
        examples: Sequence[Example],
        search: Search,
        *,
        constraints: Constraints | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Answers | None:
        """All that metrics look at: answers by ``search``, and the target's log-probability if it is known.

        None if it was stopped.
        """
        answers = self.answers(examples, search, constraints=constraints, weights=False, stop=stop)
        if stop():
            return None
        best = [found[0] if found else BLANK for found in answers]
        judged = Answers(
            [answer.text for answer in best],
            [(example["target"], *example.references) for example in examples],
            [example["source"] for example in examples],
            np.array([len(answer.source_tokens) for answer in best]),
            truncated=np.array([answer.truncated for answer in best]),
        )
        if not self.scores_targets:
            return judged
        scores = self.scores(examples, [example["target"] for example in examples])
        return replace(
            judged,
            log_probs=np.array([score.log_prob for score in scores]),
            tokens=np.array([len(score.token_log_probs) for score in scores]),
            correct=np.array([score.correct for score in scores]),
        )

    def _text(self, examples: Sequence[Mapping[str, Any]], number: int, tokens: list[int]) -> str:
        """What tokens are as an answer to one of some examples, for a search that judges by text."""
        return str(self.fields["target"].decode(as_row(tokens, self.fields["target"]), examples[number]))

    def _read(self, given: Sequence[Mapping[str, Any]]) -> list[Inputs]:
        """All inputs as arrays, by the fields of every reader that there is; a blank source has no steps."""
        real = [n for n, example in enumerate(given) if "source" not in example or not is_blank(example["source"])]
        found = []
        for fields in self.readers or [self.fields]:
            inputs: Inputs = {name: [np.zeros(0)] * len(given) for name in fields if name != "target"}
            for name, rows in inputs.items():
                try:
                    encoded = fields.encode(name, [given[n] for n in real])
                except SentenceError as error:
                    raise SentenceError(error.problem, real[error.sentence or 0]) from None
                for n, row in zip(real, encoded, strict=True):
                    rows[n] = row
            found.append(inputs)
        for n in real:
            if not all(len(inputs["source"][n]) for inputs in found):  # for one of them it is blank: for all
                for inputs in found:
                    inputs["source"][n] = np.zeros(0)
                continue
            for name in {name for inputs in found for name, rows in inputs.items() if not len(rows[n])}:
                raise SentenceError(f"its {name} is empty", n)
        for network, inputs in zip(self.networks, found if self.readers else found * len(self.networks), strict=True):
            _check_lengths(inputs["source"], network.longest_source)
        return found

    def _batch(self, rows: Sequence[int], read: Sequence[Inputs]) -> Any:
        """Some of the examples, as the network takes them: a batch, or one for every reader."""
        batches = [
            Batch({name: pad([column[row] for row in rows]) for name, column in inputs.items()}).to(self.device)
            for inputs in read
        ]
        return batches if self.readers else batches[0]


def as_examples(given: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Examples to predict, each with its inputs by name."""
    return [one if isinstance(one, Mapping) else {"source": one} for one in given]


def _check_lengths(sources: Sequence[Array], longest: int | None) -> None:
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
