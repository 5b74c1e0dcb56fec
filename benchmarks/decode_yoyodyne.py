"""Worker of ``decode.py`` for Yoyodyne: its prediction step, called as in Lightning's loop."""

import logging
import warnings
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from harness.worker import Run, serve
from torch.nn.functional import pad
from yoyodyne import models, special
from yoyodyne.data import Batch
from yoyodyne.data.batches import PaddedTensor
from yoyodyne.models import modules

OURS = 4
"""Number of special tokens in the batches; Yoyodyne has more, so the ids of all other tokens are shifted."""
MORE = len(special.SPECIAL) - OURS
NEVER = -1e4


def read(source: np.ndarray) -> Batch:
    """Convert token ids to a Yoyodyne batch, with its BOS and EOS around every source."""
    rows = [torch.from_numpy(row[row >= OURS] + MORE) for row in source]
    starts = [pad(row, (1, 0), value=special.START_IDX) for row in rows]
    return Batch(PaddedTensor([pad(row, (0, 1), value=special.END_IDX) for row in starts]))


def make(model: str, vocabulary: int, sizes: dict[str, Any], beam: int, steps: int, folder: str) -> Run:
    """Search on the batches in ``folder``.

    Yoyodyne has a maximum length but no minimum length, so a bias keeps the model from ending by itself.
    """
    assert model == "g2p"
    torch.manual_seed(0)
    made = models.SoftAttentionLSTMModel(
        source_encoder=modules.LSTMEncoder(embedding_size=sizes["embedding"], hidden_size=sizes["hidden"]),
        embedding_size=sizes["embedding"],
        decoder_hidden_size=sizes["hidden"],
        vocab_size=vocabulary + MORE,
        target_vocab_size=vocabulary + MORE,
        beam_width=beam,
        max_target_length=steps,
    ).eval()
    with torch.no_grad():
        made.classifier.bias[special.END_IDX] = NEVER
    made.trainer = lightning.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    ready = [read(source) for source in np.load(Path(folder) / "sources.npz").values()]

    def run(number: int) -> list[list[int]]:
        with torch.inference_mode():
            found = made.predict_step(ready[number], 0)
        outputs = found if beam == 1 else found[0][:, 0, 1:]  # the best hypothesis of every beam, without BOS
        return outputs.tolist()

    return run


if __name__ == "__main__":
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    serve(make)
