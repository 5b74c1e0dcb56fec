"""The worker of ``decode.py`` for seqloom: its greedy and its beam search."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import train_corpus_seqloom
import train_step_seqloom
from harness.worker import Run, serve

from seqloom import build_model
from seqloom.batch import PAD, START, Batch, Padded
from seqloom.decode.beam import Beam
from seqloom.decode.greedy import Greedy
from seqloom.export.ctranslate2 import export
from seqloom.nn.layout import for_few_rows

NEVER = -1e4
"""The bias of a symbol that a trained model never says, and that only some toolkits forbid."""


def build(model: str, vocabulary: int, sizes: dict[str, Any]) -> Any:
    """A model of one of the training benchmarks, with random weights, ready for use."""
    if model == "g2p":
        parts, _ = train_corpus_seqloom.describe(model, "", sizes)
        preset, _ = parts.pop("preset"), parts.pop("dropout")
        settings = {f"{part}.{name}": value for part, options in parts.items() for name, value in options.items()}
        size = sizes["hidden"]
    else:
        preset, settings = train_step_seqloom.describe(model, sizes)
        size = sizes["size"]
    torch.manual_seed(0)
    made: Any = build_model(
        preset, sizes={"source": vocabulary, "target": vocabulary}, size=size, settings=settings
    ).eval()
    with torch.no_grad():
        made.output.bias[[PAD, START]] = NEVER
    for_few_rows(made.decoder, made.output)  # as a run is, once it is loaded
    return made


def make(model: str, vocabulary: int, sizes: dict[str, Any], beam: int, steps: int, folder: str) -> Run:
    """Searches for the batches of a folder; a Transformer is exported into it, for peers that can run it."""
    made = build(model, vocabulary, sizes)
    home = Path(folder) / "ctranslate2"
    if model == "transformer" and not home.exists():
        home.mkdir()
        export(made, home, int8=False)
    sources = [torch.from_numpy(source) for source in np.load(Path(folder) / "sources.npz").values()]
    ready = [Batch({"source": Padded(source, source != PAD)}) for source in sources]
    tokens = steps - 1  # and END
    search = (
        Greedy(min_length=tokens, max_length=tokens)
        if beam == 1
        else Beam(width=beam, min_length=tokens, max_length=tokens)
    )
    return lambda number: [best.tokens for best, *_ in search(made, ready[number], weights=False)]


if __name__ == "__main__":
    serve(make)
