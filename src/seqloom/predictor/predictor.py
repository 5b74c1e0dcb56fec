"""A network and its fields, from values to values: predictions, and log-probabilities of given targets."""

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
from seqloom.decode import Search, TokenConstraints
from seqloom.decode.ensemble import Ensemble
from seqloom.decode.history import BackPointers
from seqloom.decode.lengths import TrainingLengths
from seqloom.decode.protocol import SearchEngine
from seqloom.decode.rollout import rollout, rolls_out
from seqloom.decode.score import score
from seqloom.errors import ConfigError, InputError, SentenceError, ShapeError
from seqloom.metrics import EvaluationData
from seqloom.predictor.constraints import Constraints
from seqloom.predictor.prediction import BLANK, Prediction, TargetScore
from seqloom.predictor.results import as_array, make_predictions, tokenizer_of
from seqloom.trace import Recorder, TopCandidates, Trace, TracedHypothesis

MAX_TOKENS = 6000
"""Maximum number of source tokens in a batch, with padding; it bounds memory use."""
DEFAULT_ROWS = 5
"""Rows per sentence that fit this batch size: a search with more of them gets proportionally smaller batches."""
Inputs = dict[str, list[Array]]
"""The encoded inputs of a network: one array per example, by field."""


@dataclass(frozen=True)
class Predictor:
    """A network with the fields it was trained with, or an ensemble of such networks.

    An example to predict is a mapping with a value for every input, or only the value of the source.

    network: an ``Autoregressive`` model, an ``Ensemble`` of them, or an engine. A model whose output is not tokens
        generates by rollout.
    member_fields: the fields of an ensemble's networks, if they differ. Attention is then not available, since the
        networks attend to different positions.
    """

    network: Any
    fields: Fields
    member_fields: Sequence[Fields] = ()

    def __post_init__(self) -> None:
        for network in self.networks:  # here and not per call, since several threads may use the networks
            network.eval()

    @property
    def networks(self) -> list[Any]:
        """The network, or the networks of the ensemble."""
        return list(self.network.models) if isinstance(self.network, Ensemble) else [self.network]

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        network = self.networks[0]
        device: torch.device = network.device if hasattr(network, "device") else next(network.parameters()).device
        return device

    @property
    def training_lengths(self) -> TrainingLengths | None:
        """The lengths in the training data, from which the maximum output length is derived; None if unknown."""
        lengths: Any = self.fields.limits
        return None if lengths is None else TrainingLengths(**lengths)

    @property
    def rolls_out(self) -> bool:
        """Whether the output is not tokens: then there is nothing to search or to score."""
        return rolls_out(self.network)

    @property
    def scores_targets(self) -> bool:
        """Whether the network can score given targets; an engine that runs its own search can't."""
        return not isinstance(self.network, SearchEngine) and not self.rolls_out

    def generate(
        self,
        examples: Sequence[Any],
        search: Search,
        *,
        constraints: Constraints | None = None,
        return_attention: bool = True,
        stop: Callable[[], bool] = lambda: False,
    ) -> list[list[Prediction]]:
        """The predictions for every example, best first; the prediction for a blank source is blank.

        search: the decoding strategy; in a rollout only its length limits apply.
        constraints: what outputs must start with, contain and avoid.
        return_attention: return attention weights, if the model has attention.
        stop: called before every batch; if it returns True, the remaining examples get no predictions.
        """
        given = as_examples(examples)
        inputs = self._encode_inputs(given)
        sources = inputs[0]["source"]
        if constraints is not None:
            constraints.check_sources(len(given))
        predictions: list[list[Prediction]] = [[] if len(row) else [BLANK] for row in sources]
        max_tokens = MAX_TOKENS * DEFAULT_ROWS // max(search.max_rows, DEFAULT_ROWS)
        for rows in _batches_by_length([len(row) for row in sources], max_tokens):
            if stop():
                break
            batch = self._make_batch(rows, inputs)
            token_constraints = self._target_tokens(constraints, rows)
            if self.rolls_out:
                hypotheses = rollout(
                    self.network, batch, lengths=search.lengths, training_lengths=self.training_lengths
                )
            else:
                hypotheses = search(
                    self.network,
                    batch,
                    return_attention=return_attention and not self.member_fields,
                    constraints=token_constraints,
                    detokenize=partial(self._detokenize, [given[row] for row in rows]),
                    training_lengths=self.training_lengths,
                )
            for row, best in zip(rows, hypotheses, strict=True):
                predictions[row] = make_predictions(best, self.fields, sources[row], given[row])
        return predictions

    def trace(self, example: Any, search: Search, *, constraints: Constraints | None = None) -> Trace:
        """Record activations and search history for one example; the results equal those of ``generate``."""
        if not self.scores_targets:
            raise ConfigError(
                "trace needs a model that predicts tokens: this one generates by rollout, without a search"
                if self.rolls_out
                else "this engine does not support trace: use PyTorch (the default)"
            )
        source_field, target_field = self.fields["source"], self.fields["target"]
        given = as_examples([example])
        inputs = self._encode_inputs(given)
        if not len(inputs[0]["source"][0]):
            raise InputError("the source is blank: there is nothing to trace")
        recorder, history = Recorder(), list[BackPointers]()
        (best,) = search(
            self.network,
            self._make_batch([0], inputs),
            constraints=self._target_tokens(constraints, [0]),
            detokenize=partial(self._detokenize, given),
            training_lengths=self.training_lengths,
            probe=recorder,
            history=history,
        )
        return Trace(
            source=source_field.show(inputs[0]["source"][0]),
            hypotheses=[
                TracedHypothesis(
                    text=target_field.decode(as_array(h.tokens, target_field), given[0]),
                    tokens=target_field.show(as_array(h.tokens, target_field)),
                    log_prob=h.log_prob,
                    token_log_probs=h.token_log_probs,
                    score=h.score,
                    finished=h.finished,
                    rows=h.rows,
                )
                for h in best
            ],
            steps=[
                TopCandidates(
                    rows=nodes.row_X.tolist(),
                    parents=nodes.parent_X.tolist(),
                    tokens=target_field.show(nodes.token_X.cpu().numpy()),
                    log_probs=nodes.log_prob_X.tolist(),
                )
                for nodes in history
            ],
            activations=recorder.activations,
        )

    def scores(self, examples: Sequence[Any], targets: Sequence[Any]) -> list[TargetScore]:
        """The model's log-probability of every target, given its example."""
        if not self.scores_targets:
            raise ConfigError(
                "the output of this model is not tokens: there is nothing to score"
                if self.rolls_out
                else "this engine does not score given targets: use PyTorch (the default) or engine 'onnx'"
            )
        if len(examples) != len(targets):
            raise ShapeError(f"{len(examples)} sources and {len(targets)} targets: each source needs one target")
        given = [
            {**example, "target": target} for example, target in zip(as_examples(examples), targets, strict=True)
        ]
        field, inputs = self.fields["target"], self._encode_inputs(given)
        target_rows = self.fields.encode("target", given)
        for number, source in enumerate(inputs[0]["source"]):
            if not len(source):
                raise ShapeError(f"source {number} is empty: a target can be scored only with a source")
        scores: list[TargetScore | None] = [None] * len(given)
        lengths = [max(len(s), len(t)) for s, t in zip(inputs[0]["source"], target_rows, strict=True)]
        for rows in _batches_by_length(lengths, MAX_TOKENS):
            batch = self._make_batch(rows, [{**columns, "target": target_rows} for columns in inputs])
            scored = score(self.network, batch)
            log_prob_rows, correct_counts = scored.log_probs.tolist(), scored.correct.sum(1).tolist()
            for row, log_probs, correct in zip(rows, log_prob_rows, correct_counts, strict=True):
                target = target_rows[row]
                unpadded, tokens = log_probs[: len(target)], field.show(target[: len(target) - field.end_steps])
                scores[row] = TargetScore(sum(unpadded), tokens, unpadded, int(correct))
        return [score for score in scores if score is not None]

    def predict_for_evaluation(
        self,
        examples: Sequence[Example],
        search: Search,
        *,
        constraints: Constraints | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> EvaluationData | None:
        """The input of metrics: predictions by ``search``, and the targets' log-probabilities if available.

        None if ``stop`` returned True.
        """
        predictions = self.generate(examples, search, constraints=constraints, return_attention=False, stop=stop)
        if stop():
            return None
        best = [candidates[0] if candidates else BLANK for candidates in predictions]
        data = EvaluationData(
            [prediction.text for prediction in best],
            [(example["target"], *example.references) for example in examples],
            [example["source"] for example in examples],
            np.array([len(prediction.source_tokens) for prediction in best]),
            truncated=np.array([prediction.truncated for prediction in best]),
        )
        if not self.scores_targets:
            return data
        scores = self.scores(examples, [example["target"] for example in examples])
        return replace(
            data,
            log_probs=np.array([score.log_prob for score in scores]),
            tokens=np.array([len(score.token_log_probs) for score in scores]),
            correct=np.array([score.correct for score in scores]),
        )

    def _target_tokens(self, constraints: Constraints | None, rows: Sequence[int]) -> TokenConstraints | None:
        """The constraints in target tokens, for the examples with these indices."""
        return None if constraints is None else constraints.to_tokens(rows, tokenizer_of(self.fields["target"]))

    def _detokenize(self, examples: Sequence[Mapping[str, Any]], number: int, tokens: list[int]) -> str:
        """The text of output tokens for one of the examples, for a search that compares texts."""
        return str(self.fields["target"].decode(as_array(tokens, self.fields["target"]), examples[number]))

    def _encode_inputs(self, given: Sequence[Mapping[str, Any]]) -> list[Inputs]:
        """Encode the inputs by ``fields``, or by each of ``member_fields``; a blank source has length 0."""
        present = [n for n, example in enumerate(given) if "source" not in example or not is_blank(example["source"])]
        encoded_inputs = []
        for fields in self.member_fields or [self.fields]:
            inputs: Inputs = {name: [np.zeros(0)] * len(given) for name in fields if name != "target"}
            for name, rows in inputs.items():
                try:
                    encoded = fields.encode(name, [given[n] for n in present])
                except SentenceError as error:
                    raise SentenceError(error.problem, present[error.sentence or 0]) from None
                for n, row in zip(present, encoded, strict=True):
                    rows[n] = row
            encoded_inputs.append(inputs)
        for n in present:
            if not all(len(inputs["source"][n]) for inputs in encoded_inputs):  # blank for one network: for all
                for inputs in encoded_inputs:
                    inputs["source"][n] = np.zeros(0)
                continue
            for name in {name for inputs in encoded_inputs for name, rows in inputs.items() if not len(rows[n])}:
                raise SentenceError(f"its {name} is empty: give it a value", n)
        by_network = encoded_inputs if self.member_fields else encoded_inputs * len(self.networks)
        for network, inputs in zip(self.networks, by_network, strict=True):
            _check_lengths(inputs["source"], network.max_source_length)
        return encoded_inputs

    def _make_batch(self, rows: Sequence[int], encoded_inputs: Sequence[Inputs]) -> Any:
        """A batch of the examples with these indices, or one batch per member of ``member_fields``."""
        batches = [
            Batch({name: pad([column[row] for row in rows]) for name, column in inputs.items()}).to(self.device)
            for inputs in encoded_inputs
        ]
        return batches if self.member_fields else batches[0]


def as_examples(given: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Examples as mappings from input names to values."""
    return [one if isinstance(one, Mapping) else {"source": one} for one in given]


def _check_lengths(sources: Sequence[Array], max_length: int | None) -> None:
    """Raise an error for the first source that is longer than the positional encoding of a network."""
    for number, ids in enumerate(sources):
        if max_length is not None and len(ids) > max_length:
            raise SentenceError(
                f"the source has {len(ids)} tokens, but the model supports at most {max_length}: shorten it, or "
                "train with a greater encoder.positional_encoding.max_positions, or with sinusoidal positions",
                number,
            )


def _batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Batches of the indices of non-empty rows, longest first, of at most this many tokens with padding."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if lengths[row] == 0:
            break
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
