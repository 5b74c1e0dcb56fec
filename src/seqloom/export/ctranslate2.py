"""Transformers in CTranslate2, which searches by itself, in C++: every batch has a worker of one thread.

Its greedy search is ours, and its beam search is ours with ``refill``. It looks for answers only: where a model
attends to, and what it thinks of a given target, is asked of another engine.
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

from seqloom.batch import END, PAD, START, UNKNOWN, Batch
from seqloom.decode.beam import Beam
from seqloom.decode.greedy import Greedy
from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.lengths import Limits
from seqloom.decode.masks import Masks
from seqloom.decode.search import Search
from seqloom.errors import OptionError
from seqloom.export.common import LIMITS, needed
from seqloom.models.base import Autoregressive
from seqloom.models.decoders.transformer import TransformerDecoder
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.models.encoders.transformer import TransformerEncoder
from seqloom.nn.embedders.tokens import TokenEmbedder
from seqloom.nn.multihead import MultiHead
from seqloom.nn.outputs.tokens import TokenOutput
from seqloom.nn.transformer import DecoderLayer, EncoderLayer

PLACES = 4096
"""Positions are a table here; of sinusoidal ones it has so many."""
TOGETHER = 32
"""How many sentences a worker takes at a time, at most."""
SPECIAL = {PAD: "<pad>", START: "<s>", END: "</s>", UNKNOWN: "<unk>"}
"""As CTranslate2 calls them where nothing is said; all other tokens are called by their numbers."""
Floats = NDArray[np.float32]


# -- writing


def export(model: Autoregressive, folder: Path, *, int8: bool) -> None:
    """Write a Transformer into a folder; int8: with weights of 8 bits."""
    specs: Any = needed("ctranslate2.specs")
    source, encoder, decoder, output = _parts(deepcopy(model).cpu().float())  # the caller's stays as it is
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
    longest = {"longest_source": encoder.longest or PLACES, "longest_answer": decoder.longest or PLACES - 1}
    (folder / LIMITS).write_text(json.dumps(longest) + "\n", encoding="utf-8")


def _parts(model: Autoregressive) -> tuple[TokenEmbedder, TransformerEncoder, TransformerDecoder, TokenOutput]:
    """The parts of a model that CTranslate2 can run; any other is refused."""
    if isinstance(model, EncoderDecoder):
        source, encoder, decoder, output = model.source, model.encoder, model.decoder, model.output
        if (
            isinstance(source, TokenEmbedder)
            and isinstance(encoder, TransformerEncoder)
            and isinstance(decoder, TransformerDecoder)
            and isinstance(output, TokenOutput)
            and not source.reverse
        ):
            return source, encoder, decoder, output
    raise OptionError(
        "CTranslate2 runs Transformers from tokens to tokens, the source in its own order, and this model is none: "
        "export it to onnx"
    )


def _stack(kind: Any, stack: TransformerEncoder | TransformerDecoder) -> Any:
    """The description of a stack of layers, without its weights."""
    activations: Any = needed("ctranslate2.specs.common_spec").Activation
    first = stack.layers[0]
    assert isinstance(first, EncoderLayer | DecoderLayer)
    return kind(
        len(stack.layers),
        first.self_attention.heads,
        pre_norm=first.self_path.place == "before",
        activation=activations.RELU if isinstance(first.feed_forward[1], nn.ReLU) else activations.GELU,
    )


def _positions(stack: TransformerEncoder | TransformerDecoder) -> Floats:
    """What is added at every position."""
    steps = stack.positions.longest or PLACES
    return _array(stack.positions(torch.zeros(1, steps, stack.output_size))[0])


def _put_layer(into: Any, layer: nn.Module) -> None:
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    together, out = into.self_attention.linear
    _put_linear(together, *_projections(layer.self_attention))
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


def _projections(attention: MultiHead) -> list[nn.Linear]:
    return [attention.query, attention.key, attention.value]


def _put_linear(into: Any, *linears: nn.Module) -> None:
    """One or several linear layers above each other; where one has no bias, it is 0."""
    weights = [_array(linear.get_parameter("weight")) for linear in linears]
    biases = [
        np.zeros(len(weight), np.float32) if linear.bias is None else _array(linear.get_parameter("bias"))
        for linear, weight in zip(linears, weights, strict=True)
    ]
    into.weight, into.bias = np.concatenate(weights), np.concatenate(biases)


def _put_norm(into: Any, norm: nn.LayerNorm) -> None:
    into.gamma, into.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> Floats:
    """A copy: what is rounded to 8 bits is rounded in its place, and a table may be used twice."""
    return tensor.detach().numpy().copy()


def _names(tokens: int) -> list[str]:
    return [SPECIAL.get(token, str(token)) for token in range(tokens)]


# -- running


class Found(NamedTuple):
    """An answer of CTranslate2's: its tokens, without END, whether it ended, and whether a better one was cut."""

    tokens: list[str]
    finished: bool
    truncated: bool


class CTranslate2Model:
    """An exported Transformer, which finds answers by itself."""

    training = False
    device = torch.device("cpu")

    def __init__(self, folder: Path) -> None:
        ctranslate2: Any = needed("ctranslate2")
        # Products are so small that two threads at one of them wait for each other: each has batches of its own.
        self.translator = ctranslate2.Translator(str(folder), inter_threads=torch.get_num_threads(), intra_threads=1)
        longest = json.loads((folder / LIMITS).read_text(encoding="utf-8"))
        self.longest_source: int = longest["longest_source"]
        self.longest_answer: int = longest["longest_answer"]

    def eval(self) -> "CTranslate2Model":
        """It is always in use, never in training."""
        return self

    def found(
        self, search: Search, batch: Batch, *, weights: bool, masks: Masks, limits: Limits | None
    ) -> list[list[Hypothesis]]:
        """The answers to every source of the batch, best first."""
        _check(search, masks)
        assert batch.source is not None
        sources = [
            [SPECIAL.get(token, str(token)) for token in row[real].tolist()]
            for row, real in zip(*batch["source"], strict=True)
        ]
        least_B, most_B = search.lengths.bounds(
            batch["source"], batch.rows, self.device, longest=self.longest_answer, limits=limits
        )
        best = self._best(search, sources, list(zip(least_B.tolist(), most_B.tolist(), strict=True)))
        scored = self._score(sources, best)
        return [
            [_hypothesis(search, found, log_probs) for found, log_probs in zip(*one, strict=True)]
            for one in zip(best, scored, strict=True)
        ]

    def _best(
        self, search: Search, sources: Sequence[list[str]], limits: Sequence[tuple[int, int]]
    ) -> list[list[Found]]:
        """The best answers to every source.

        A batch has one limit: the greatest of its sentences'. Where an answer goes beyond its own, it is looked for
        again, alone.
        """
        found: list[list[Found]] = [[] for _ in sources]
        asked = []
        by_length = sorted(range(len(sources)), key=lambda row: (limits[row][0], len(sources[row])))
        together = min(TOGETHER, math.ceil(len(sources) / self.translator.num_translators))
        while by_length:
            least = limits[by_length[0]][0]
            rows = [row for row in by_length[:together] if limits[row][0] == least]
            del by_length[: len(rows)]
            most = max(limits[row][1] for row in rows)
            asked.append((rows, self._ask(search, [sources[row] for row in rows], least, most)))
        for rows, answers in asked:
            for row, answer in zip(rows, answers, strict=True):
                found[row] = _ranked(search, answer.result())
        for row, (least, most) in enumerate(limits):
            if any(len(one.tokens) > most for one in found[row]):
                (answer,) = self._ask(search, [sources[row]], least, most)
                found[row] = _ranked(search, answer.result())
        return found

    def _ask(self, search: Search, sources: list[list[str]], least: int, most: int) -> Any:
        """Answers to come; END counts in the greatest length, not in the least."""
        return self.translator.translate_batch(
            sources,
            beam_size=search.rows,
            num_hypotheses=search.rows,  # more than are asked for: some may be cut
            min_decoding_length=least,
            max_decoding_length=most + 1,
            max_input_length=0,
            disable_unk=UNKNOWN in search.never,
            suppress_sequences=[[SPECIAL[PAD]], [SPECIAL[START]]],
            return_end_token=True,
            asynchronous=True,
        )

    def _score(self, sources: Sequence[list[str]], best: Sequence[list[Found]]) -> list[list[list[float]]]:
        """The log-probability of every token of every answer, and of END behind it."""
        pairs = [(source, one.tokens) for source, answers in zip(sources, best, strict=True) for one in answers]
        scored = iter(
            self.translator.score_batch(
                [source for source, _ in pairs],
                [tokens for _, tokens in pairs],
                max_batch_size=TOGETHER,
                max_input_length=0,
            )
        )
        return [
            [list(next(scored).log_probs)[: len(one.tokens) + one.finished] for one in answers] for answers in best
        ]


def _check(search: Search, masks: Masks) -> None:
    """Refuse what CTranslate2 does not do, or does otherwise."""
    if not isinstance(search, Beam | Greedy):
        raise OptionError("CTranslate2 searches by greedy or beam alone: use another engine for other searches")
    if isinstance(search, Beam) and search.width > 1:
        if search.refill is False:
            raise OptionError(
                "CTranslate2 always fills the places again that answers leave in its beam: leave out refill"
            )
        # It divides the probability of what may not follow among the rest, and so favours unlikely beginnings.
        held_back = search.lengths.min_length or search.lengths.min_ratio or UNKNOWN in search.never
        if held_back or search.ranking.normalisation != "average":
            raise OptionError(
                "CTranslate2 ranks the answers of a beam by their average alone, and otherwise than we do where END "
                "or unknown tokens are held back: leave out normalisation, min_length, min_ratio and unknown, or use "
                "another engine"
            )
    if search.ranking.coverage:
        raise OptionError("CTranslate2 does not know how much of a source was read: leave out coverage")
    if not masks.idle:
        raise OptionError("CTranslate2 knows no constraints on answers: leave them out, or use another engine")


def _ranked(search: Search, answer: Any) -> list[Found]:
    """The best of CTranslate2's answers, which are in order; those that ended come first.

    At the greatest length it takes whatever is likeliest, be it END or not: what it ranks behind an answer that did
    not end, our search gives only because END alone may follow there.
    """
    ended = [tokens[-1:] == [SPECIAL[END]] for tokens in answer.hypotheses]
    every = [
        Found(tokens[:-1], ended[n], truncated=not all(ended[: n + 1])) for n, tokens in enumerate(answer.hypotheses)
    ]
    return sorted(every, key=lambda found: not found.finished)[: search.n_best]


def _hypothesis(search: Search, found: Found, log_probs: list[float]) -> Hypothesis:
    total = math.fsum(log_probs)
    value = search.ranking.divide(torch.tensor(total, dtype=torch.float64), max(len(log_probs), 1))
    return Hypothesis(
        tokens=[UNKNOWN if token == SPECIAL[UNKNOWN] else int(token) for token in found.tokens],
        log_prob=total,
        value=float(value),
        formula=search.ranking.formula,
        token_log_probs=log_probs,
        weights=None,
        finished=found.finished,
        truncated=found.truncated,
    )
