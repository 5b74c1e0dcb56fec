"""Worker of ``decode.py`` for JoeyNMT: its search, called as in its ``predict``."""

import logging
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness.worker import Run, serve
from joeynmt.batch import Batch
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary
from train_step_joeynmt import EOS, OURS, PAD, SYMBOLS, describe


def read(source: np.ndarray) -> Batch:
    """Convert token ids to a JoeyNMT batch, with JoeyNMT's order of the special tokens."""
    ids = torch.from_numpy(np.where(source < len(OURS), OURS[np.minimum(source, len(OURS) - 1)], source))
    return Batch(
        src=ids,
        src_length=(ids != PAD).sum(1),
        src_prompt_mask=None,
        trg=None,
        trg_prompt_mask=None,
        indices=torch.arange(len(ids)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=EOS,
        is_train=False,
    )


def make(model: str, vocabulary: int, sizes: dict[str, Any], beam: int, steps: int, folder: str) -> Run:
    """Search on the batches in ``folder``."""
    torch.manual_seed(0)
    symbols = Vocabulary([f"w{n}" for n in range(len(OURS), vocabulary)], SYMBOLS)
    assert len(symbols) == vocabulary
    made = build_model(describe(model, sizes), src_vocab=symbols, trg_vocab=symbols).eval()
    ready = [read(source) for source in np.load(Path(folder) / "sources.npz").values()]

    def run(number: int) -> list[list[int]]:
        batch = copy(ready[number])
        order = batch.sort_by_src_length()
        outputs, _, _ = search(
            made, batch, max_output_length=steps, beam_size=beam, beam_alpha=-1, min_output_length=steps - 1
        )
        return outputs[order].tolist()

    return run


if __name__ == "__main__":
    logging.disable(logging.INFO)
    serve(make)
