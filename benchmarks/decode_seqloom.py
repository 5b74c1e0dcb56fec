"""Worker of ``decode.py`` for seqloom: greedy search and beam search."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import train_corpus_seqloom
import train_step_seqloom
from harness.worker import Run, serve

from seqloom import build_model
from seqloom.batch import BOS, PAD, Batch, Padded
from seqloom.decode.beam import Beam
from seqloom.decode.greedy import Greedy
from seqloom.export.ctranslate2 import export
from seqloom.nn.layout import use_column_major_weights

NEVER = -1e4
"""Bias of special tokens that a trained model never generates and that only some toolkits forbid."""


def build(model: str, vocabulary: int, sizes: dict[str, Any]) -> Any:
    """Build a model of one of the training benchmarks, with random weights, for inference."""
    if model == "g2p":
        parts, _ = train_corpus_seqloom.describe(model, "", sizes)
        preset, _ = parts.pop("preset"), parts.pop("dropout")
        overrides = {f"{part}.{name}": value for part, options in parts.items() for name, value in options.items()}
        size = sizes["hidden"]
    else:
        preset, overrides = train_step_seqloom.describe(model, sizes)
        size = sizes["size"]
    torch.manual_seed(0)
    made: Any = build_model(
        preset, sizes={"source": vocabulary, "target": vocabulary}, hidden_size=size, overrides=overrides
    ).eval()
    with torch.no_grad():
        made.output.bias[[PAD, BOS]] = NEVER
    use_column_major_weights(made.decoder, made.output)  # as when a run is loaded
    return made


def make(model: str, vocabulary: int, sizes: dict[str, Any], beam: int, steps: int, folder: str) -> Run:
    """Search on the batches in ``folder``; exports a Transformer to it, for peers that can run it."""
    made = build(model, vocabulary, sizes)
    home = Path(folder) / "ctranslate2"
    if model == "transformer" and not home.exists():
        home.mkdir()
        export(made, home, int8=False)
    sources = [torch.from_numpy(source) for source in np.load(Path(folder) / "sources.npz").values()]
    ready = [Batch({"source": Padded(source, source != PAD)}) for source in sources]
    tokens = steps - 1  # without EOS
    search = (
        Greedy(min_length=tokens, max_length=tokens)
        if beam == 1
        else Beam(beam_size=beam, min_length=tokens, max_length=tokens)
    )
    return lambda number: [best.tokens for best, *_ in search(made, ready[number], return_attention=False)]


if __name__ == "__main__":
    serve(make)
