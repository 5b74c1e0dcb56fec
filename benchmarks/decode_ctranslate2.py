"""The worker of ``decode.py`` for CTranslate2: our Transformer's weights in its format, and its translator."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec
from harness.worker import Run, serve

PAD = 0
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
"""Named as CTranslate2 names them by default, and in the order in which the batches have them."""
Weights = Mapping[str, np.ndarray]


def convert(weights: Weights, sizes: dict[str, Any], symbols: list[str]) -> TransformerSpec:
    """CTranslate2's description of our Transformer, which holds the weights too."""
    spec = TransformerSpec.from_config(sizes["layers"], sizes["heads"], pre_norm=True)
    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        stack.position_encodings.encodings = weights["positions"]
        put(stack.layer_norm, weights, f"{side}.norm")
        for number, layer in enumerate(stack.layer):
            at = f"{side}.layers.{number}"
            queries, out = layer.self_attention.linear
            put_rows(queries, weights, f"{at}.self_attention", ("query", "key", "value"))
            put(out, weights, f"{at}.self_attention.out")
            put(layer.self_attention.layer_norm, weights, f"{at}.self_path.norm")
            put(layer.ffn.linear_0, weights, f"{at}.feed_forward.0")
            put(layer.ffn.linear_1, weights, f"{at}.feed_forward.3")
            put(layer.ffn.layer_norm, weights, f"{at}.feed_path.norm")
            if side == "decoder":
                queries, memory, out = layer.attention.linear
                put(queries, weights, f"{at}.cross_attention.query")
                put_rows(memory, weights, f"{at}.cross_attention", ("key", "value"))
                put(out, weights, f"{at}.cross_attention.out")
                put(layer.attention.layer_norm, weights, f"{at}.cross_path.norm")
    spec.encoder.embeddings[0].weight = weights["source.embedding.weight"]
    spec.decoder.embeddings.weight = weights["output.embedding.weight"]
    put(spec.decoder.projection, weights, "output")
    spec.register_source_vocabulary(symbols)
    spec.register_target_vocabulary(symbols)
    spec.validate()
    return spec


def put(layer: Any, weights: Weights, name: str) -> None:
    """Weight and bias of one of our layers; of a norm they are called gamma and beta."""
    places = ("gamma", "beta") if hasattr(layer, "gamma") else ("weight", "bias")
    for place, ours in zip(places, ("weight", "bias"), strict=True):
        setattr(layer, place, weights[f"{name}.{ours}"])


def put_rows(layer: Any, weights: Weights, name: str, parts: tuple[str, ...]) -> None:
    """Several of our layers as one above the other; where ours has no bias, it is 0."""
    matrices = {part: weights[f"{name}.{part}.weight"] for part in parts}
    biases = [weights.get(f"{name}.{part}.bias", np.zeros_like(matrix[:, 0])) for part, matrix in matrices.items()]
    layer.weight, layer.bias = np.concatenate(list(matrices.values())), np.concatenate(biases)


def make(
    model: str, vocabulary: int, sizes: dict[str, Any], beam: int, steps: int, folder: str, compute_type: str
) -> Run:
    """Searches for the batches of a folder, with the weights that seqloom left in it."""
    assert model == "transformer"
    symbols = SPECIAL + [str(number) for number in range(len(SPECIAL), vocabulary)]
    number_of = {symbol: number for number, symbol in enumerate(symbols)}
    home = Path(folder) / compute_type
    home.mkdir()
    convert(dict(np.load(Path(folder) / "weights.npz")), sizes, symbols).save(str(home))
    # A worker of one thread for each share of a batch: two threads at one product wait for each other.
    workers = int(os.environ["OMP_NUM_THREADS"])
    translator = ctranslate2.Translator(str(home), compute_type=compute_type, inter_threads=workers, intra_threads=1)
    ready = [
        [[symbols[symbol] for symbol in row[row != PAD]] for row in source]
        for source in np.load(Path(folder) / "sources.npz").values()
    ]

    def run(number: int) -> list[list[int]]:
        answers = translator.translate_batch(
            ready[number],
            beam_size=beam,
            min_decoding_length=steps - 1,
            max_decoding_length=steps,
            max_batch_size=math.ceil(len(ready[number]) / workers),
        )
        return [[number_of[symbol] for symbol in answer.hypotheses[0]] for answer in answers]

    return run


if __name__ == "__main__":
    serve(make)
