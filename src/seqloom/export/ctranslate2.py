"""Transformers in CTranslate2, which runs its own search in C++: one worker with one thread per batch.

Its greedy search is the same as ours, and its beam search is the same as ours with ``refill``. It only generates: it
returns no attention weights and does not score given targets.
"""

import json
import math
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.batch import BOS, EOS, PAD, UNK, Batch
from seqloom.decode.beam import Beam
from seqloom.decode.constraints import TokenConstraints
from seqloom.decode.greedy import Greedy
from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.lengths import TrainingLengths
from seqloom.decode.search import Search
from seqloom.errors import ConfigError
from seqloom.export.common import LIMITS, import_required
from seqloom.models.base import Autoregressive
from seqloom.models.decoders.transformer import TransformerDecoder
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.models.encoders.transformer import TransformerEncoder
from seqloom.nn.embedders.tokens import TokenEmbedder
from seqloom.nn.multihead import MultiHeadAttention
from seqloom.nn.outputs.tokens import TokenOutput
from seqloom.nn.transformer import DecoderLayer, EncoderLayer

MAX_POSITIONS = 4096
"""Size of the table of positional encodings if the model has no maximum (sinusoidal positions)."""
MAX_BATCH = 32
"""Maximum number of sentences in a worker's batch."""
SPECIAL_TOKENS = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNK: "<unk>"}
"""CTranslate2's default names of the special tokens; the name of any other token is its id."""
Floats = NDArray[np.float32]


# -- export


def export(model: Autoregressive, folder: Path, *, int8: bool) -> None:
    """Write a Transformer into a folder; int8: quantize its weights."""
    specs: Any = import_required("ctranslate2.specs")
    source, encoder, decoder, output = _parts(deepcopy(model).cpu().float())  # leaves the caller's model unchanged
    spec = specs.TransformerSpec(
        _stack(specs.TransformerEncoderSpec, encoder),
        _stack(specs.TransformerDecoderSpec, decoder),
    )
    spec.encoder.scale_embeddings, spec.decoder.scale_embeddings = source.embedded.scale, output.embedded.scale
    with torch.no_grad():
        spec.encoder.embeddings[0].weight = _array(encoder.adapt(source.embedding.weight))
        spec.decoder.embeddings.weight = _array(decoder.adapt(output.embedding.weight))
        spec.encoder.position_encodings.encodings = _positions(encoder)
        spec.decoder.position_encodings.encodings = _positions(decoder)
    spec.decoder.projection.weight, spec.decoder.projection.bias = _array(output.output_weight), _array(output.bias)
    for into, stack in ((spec.encoder, encoder), (spec.decoder, decoder)):
        for into_layer, layer in zip(into.layer, stack.layers, strict=True):
            _put_layer(into_layer, layer)
        if isinstance(stack.norm, nn.LayerNorm):
            _put_norm(into.layer_norm, stack.norm)
    spec.register_source_vocabulary(_names(source.embedding.num_embeddings))
    spec.register_target_vocabulary(_names(output.embedding.num_embeddings))
    spec.validate()
    spec.optimize(quantization="int8" if int8 else None)
    spec.save(str(folder))
    limits = {
        "max_source_length": encoder.max_length or MAX_POSITIONS,
        "max_target_length": decoder.max_length or MAX_POSITIONS - 1,
    }
    (folder / LIMITS).write_text(json.dumps(limits) + "\n", encoding="utf-8")


def _parts(model: Autoregressive) -> tuple[TokenEmbedder, TransformerEncoder, TransformerDecoder, TokenOutput]:
    """The parts of a model, if CTranslate2 supports them."""
    if isinstance(model, EncoderDecoder):
        source, encoder, decoder, output = model.source_embedder, model.encoder, model.decoder, model.output
        if (
            isinstance(source, TokenEmbedder)
            and isinstance(encoder, TransformerEncoder)
            and isinstance(decoder, TransformerDecoder)
            and isinstance(output, TokenOutput)
            and not source.reverse
        ):
            return source, encoder, decoder, output
    raise ConfigError(
        "CTranslate2 supports only Transformer encoder–decoders from tokens to tokens, without "
        "source_embedder.reverse: export this model to onnx"
    )


def _stack(kind: Any, stack: TransformerEncoder | TransformerDecoder) -> Any:
    """The CTranslate2 specification of a stack of layers, without its weights."""
    activations: Any = import_required("ctranslate2.specs.common_spec").Activation
    first = stack.layers[0]
    assert isinstance(first, EncoderLayer | DecoderLayer)
    return kind(
        len(stack.layers),
        first.self_attention.heads,
        pre_norm=first.self_path.layer_norm == "pre",
        activation=activations.RELU if isinstance(first.feed_forward[1], nn.ReLU) else activations.GELU,
    )


def _positions(stack: TransformerEncoder | TransformerDecoder) -> Floats:
    """The table of positional encodings."""
    steps = stack.positions.max_positions or MAX_POSITIONS
    return _array(stack.positions(torch.zeros(1, steps, stack.output_size))[0])


def _put_layer(into: Any, layer: nn.Module) -> None:
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    projections, out = into.self_attention.linear
    _put_linear(projections, *_projections(layer.self_attention))
    _put_linear(out, layer.self_attention.out)
    _put_norm(into.self_attention.layer_norm, layer.self_path.norm)
    if isinstance(layer, DecoderLayer):
        assert layer.cross_attention is not None
        query, memory, out = into.attention.linear
        _put_linear(query, layer.cross_attention.query)
        _put_linear(memory, *_projections(layer.cross_attention)[1:])
        _put_linear(out, layer.cross_attention.out)
        _put_norm(into.attention.layer_norm, layer.cross_path.norm)
    first, *_, second = layer.feed_forward
    _put_linear(into.ffn.linear_0, first)
    _put_linear(into.ffn.linear_1, second)
    _put_norm(into.ffn.layer_norm, layer.feed_path.norm)


def _projections(attention: MultiHeadAttention) -> list[nn.Linear]:
    return [attention.query, attention.key, attention.value]


def _put_linear(into: Any, *linears: nn.Module) -> None:
    """Store one linear layer, or several concatenated ones; a missing bias is 0."""
    weights = [_array(linear.get_parameter("weight")) for linear in linears]
    biases = [
        np.zeros(len(weight), np.float32) if linear.bias is None else _array(linear.get_parameter("bias"))
        for linear, weight in zip(linears, weights, strict=True)
    ]
    into.weight, into.bias = np.concatenate(weights), np.concatenate(biases)


def _put_norm(into: Any, norm: nn.LayerNorm) -> None:
    into.gamma, into.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> Floats:
    """A copy as an array: quantization works in place, and an embedding table may be used twice."""
    return tensor.detach().numpy().copy()


def _names(tokens: int) -> list[str]:
    return [SPECIAL_TOKENS.get(token, str(token)) for token in range(tokens)]


# -- inference


class RawHypothesis(NamedTuple):
    """A hypothesis from CTranslate2.

    tokens: names of its tokens, without EOS.
    finished: whether it ends with EOS.
    truncated: whether it, or a better hypothesis, was cut off at the maximum length.
    """

    tokens: list[str]
    finished: bool
    truncated: bool


class CTranslate2Model:
    """An exported Transformer in CTranslate2, which runs its own search."""

    training = False
    device = torch.device("cpu")

    def __init__(self, folder: Path) -> None:
        ctranslate2: Any = import_required("ctranslate2")
        # The matrix multiplications are too small for several threads each, so every thread gets its own batches.
        self.translator = ctranslate2.Translator(str(folder), inter_threads=torch.get_num_threads(), intra_threads=1)
        limits = json.loads((folder / LIMITS).read_text(encoding="utf-8"))
        self.max_source_length: int = limits["max_source_length"]
        self.max_target_length: int = limits["max_target_length"]

    def eval(self) -> "CTranslate2Model":
        """Nothing to do: an exported model is always in evaluation mode."""
        return self

    def search(
        self,
        search: Search,
        batch: Batch,
        *,
        return_attention: bool,
        constraints: TokenConstraints,
        training_lengths: TrainingLengths | None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses for every source of the batch, best first."""
        _check_support(search, constraints)
        assert batch.source is not None
        sources = [
            [SPECIAL_TOKENS.get(token, str(token)) for token in row[mask].tolist()]
            for row, mask in zip(*batch["source"], strict=True)
        ]
        min_length_B, max_length_B = search.lengths.bounds(
            batch["source"],
            batch.rows,
            self.device,
            model_max_length=self.max_target_length,
            training_lengths=training_lengths,
        )
        limits = list(zip(min_length_B.tolist(), max_length_B.tolist(), strict=True))
        best = self._translate(search, sources, limits)
        log_probs = self._token_log_probs(sources, best)
        return [
            [_hypothesis(search, raw, row) for raw, row in zip(*sentence, strict=True)]
            for sentence in zip(best, log_probs, strict=True)
        ]

    def _translate(
        self, search: Search, sources: Sequence[list[str]], limits: Sequence[tuple[int, int]]
    ) -> list[list[RawHypothesis]]:
        """The best hypotheses for every source.

        A batch has one maximum length: that of its longest sentence. If a hypothesis exceeds the maximum of its own
        sentence, that sentence is translated again in a separate batch.
        """
        best: list[list[RawHypothesis]] = [[] for _ in sources]
        batches = []
        by_length = sorted(range(len(sources)), key=lambda row: (limits[row][0], len(sources[row])))
        batch_size = min(MAX_BATCH, math.ceil(len(sources) / self.translator.num_translators))
        while by_length:
            min_length = limits[by_length[0]][0]
            rows = [row for row in by_length[:batch_size] if limits[row][0] == min_length]
            del by_length[: len(rows)]
            max_length = max(limits[row][1] for row in rows)
            batches.append((rows, self._submit(search, [sources[row] for row in rows], min_length, max_length)))
        for rows, results in batches:
            for row, result in zip(rows, results, strict=True):
                best[row] = _finished_first(search, result.result())
        for row, (min_length, max_length) in enumerate(limits):
            if any(len(raw.tokens) > max_length for raw in best[row]):
                (result,) = self._submit(search, [sources[row]], min_length, max_length)
                best[row] = _finished_first(search, result.result())
        return best

    def _submit(self, search: Search, sources: list[list[str]], min_length: int, max_length: int) -> Any:
        """Futures of the results. CTranslate2 counts EOS in the maximum length, but not in the minimum."""
        return self.translator.translate_batch(
            sources,
            beam_size=search.max_rows,
            num_hypotheses=search.max_rows,  # more than n_best: some may be truncated
            min_decoding_length=min_length,
            max_decoding_length=max_length + 1,
            max_input_length=0,
            disable_unk=UNK in search.suppressed_tokens,
            suppress_sequences=[[SPECIAL_TOKENS[PAD]], [SPECIAL_TOKENS[BOS]]],
            return_end_token=True,
            asynchronous=True,
        )

    def _token_log_probs(
        self, sources: Sequence[list[str]], best: Sequence[list[RawHypothesis]]
    ) -> list[list[list[float]]]:
        """The log-probability of every token of every hypothesis, and of EOS if it is finished."""
        pairs = [(source, raw.tokens) for source, hypotheses in zip(sources, best, strict=True) for raw in hypotheses]
        results = iter(
            self.translator.score_batch(
                [source for source, _ in pairs],
                [tokens for _, tokens in pairs],
                max_batch_size=MAX_BATCH,
                max_input_length=0,
            )
        )
        return [
            [list(next(results).log_probs)[: len(raw.tokens) + raw.finished] for raw in hypotheses]
            for hypotheses in best
        ]


def _check_support(search: Search, constraints: TokenConstraints) -> None:
    """Raise if CTranslate2 does not support the search or an option, or implements it differently."""
    if not isinstance(search, Beam | Greedy):
        raise ConfigError("engine 'ctranslate2' supports only searches greedy and beam: use another engine")
    if isinstance(search, Beam) and search.beam_size > 1:
        if search.refill is False:
            raise ConfigError(
                "engine 'ctranslate2' always refills the slots of finished hypotheses: remove refill=false, or use "
                "another engine"
            )
        # It renormalizes probabilities after masking tokens, which favors unlikely partial hypotheses.
        masked = search.lengths.min_length or search.lengths.min_length_ratio or UNK in search.suppressed_tokens
        if masked or search.scorer.length_penalty != "average":
            raise ConfigError(
                "engine 'ctranslate2' supports only length_penalty=average in beam search, without min_length, "
                "min_length_ratio or allow_unk=false: remove these options, or use another engine"
            )
    if search.scorer.coverage_penalty:
        raise ConfigError("engine 'ctranslate2' does not support coverage_penalty: remove it, or use another engine")
    if not constraints.is_empty:
        raise ConfigError(
            "engine 'ctranslate2' does not support constraints (prefix, forbid, require, no_repeat_ngram_size, "
            "repetition_penalty, grammar): remove them, or use another engine"
        )


def _finished_first(search: Search, result: Any) -> list[RawHypothesis]:
    """The ``n_best`` best hypotheses of a result, which are in order of score; finished ones come first.

    At the maximum length, CTranslate2 takes the most likely token, whether it is EOS or not. So a finished hypothesis
    that it ranks after an unfinished one exists in our search only because EOS is the only token allowed there.
    """
    finished = [tokens[-1:] == [SPECIAL_TOKENS[EOS]] for tokens in result.hypotheses]
    raw = [
        RawHypothesis(tokens[:-1], finished[n], truncated=not all(finished[: n + 1]))
        for n, tokens in enumerate(result.hypotheses)
    ]
    return sorted(raw, key=lambda hypothesis: not hypothesis.finished)[: search.n_best]


def _hypothesis(search: Search, raw: RawHypothesis, log_probs: list[float]) -> Hypothesis:
    total = math.fsum(log_probs)
    score = search.scorer.apply_length_penalty(torch.tensor(total, dtype=torch.float64), max(len(log_probs), 1))
    return Hypothesis(
        tokens=[UNK if token == SPECIAL_TOKENS[UNK] else int(token) for token in raw.tokens],
        log_prob=total,
        score=float(score),
        score_formula=search.scorer.score_formula,
        token_log_probs=log_probs,
        attention=None,
        finished=raw.finished,
        truncated=raw.truncated,
    )
