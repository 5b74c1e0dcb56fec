"""Worker of ``decode.py`` for CTranslate2: its translator, with the weights of our Transformer."""

import math
import os
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
from harness.worker import Run, serve

PAD = 0
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
"""Special tokens of the vocabulary that seqloom exports; the names of all other tokens are their ids."""


def make(
    model: str, vocabulary: int, sizes: dict[str, Any], beam: int, steps: int, folder: str, compute_type: str
) -> Run:
    """Search on the batches in ``folder``, with the model that seqloom has exported to it."""
    assert model == "transformer"
    symbols = SPECIAL + [str(number) for number in range(len(SPECIAL), vocabulary)]
    number_of = {symbol: number for number, symbol in enumerate(symbols)}
    # One single-threaded worker per part of a batch: two threads in one multiplication would wait for each other.
    workers = int(os.environ["OMP_NUM_THREADS"])
    home = Path(folder) / "ctranslate2"
    translator = ctranslate2.Translator(str(home), compute_type=compute_type, inter_threads=workers, intra_threads=1)
    ready = [
        [[symbols[symbol] for symbol in row[row != PAD]] for row in source]
        for source in np.load(Path(folder) / "sources.npz").values()
    ]

    def run(number: int) -> list[list[int]]:
        results = translator.translate_batch(
            ready[number],
            beam_size=beam,
            min_decoding_length=steps - 1,
            max_decoding_length=steps,
            max_batch_size=math.ceil(len(ready[number]) / workers),
        )
        return [[number_of[symbol] for symbol in result.hypotheses[0]] for result in results]

    return run


if __name__ == "__main__":
    serve(make)
