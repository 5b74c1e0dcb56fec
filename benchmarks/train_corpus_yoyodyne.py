"""Worker of ``train_corpus.py`` for Yoyodyne: its own reader, batches and model, and Lightning's training loop."""

import logging
import time
import warnings
from functools import partial
from typing import Any

import lightning
from harness.worker import answer
from yoyodyne import models, optimizers, trainers
from yoyodyne.data import Batch, DataModule
from yoyodyne.models import modules


class Clock(lightning.Callback):
    """Records when every batch was ready."""

    def __init__(self) -> None:
        self.ready: list[float] = []

    def on_train_batch_start(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, batch: Batch, number: int
    ) -> None:
        self.ready.append(time.perf_counter())


def train(
    *, case: str, corpus: str, folder: str, sizes: dict[str, Any], seed: int, warm_up: int, span: int
) -> dict[str, Any]:
    """Train without validation; after ``warm_up`` updates, time ``span`` updates, including their batches."""
    lightning.seed_everything(seed, verbose=False)
    # Untied: graphemes and phonemes that are written alike are unrelated.
    data = DataModule(
        model_dir=folder, train=f"{corpus}/train.tsv", target_sep=" ", tie_embeddings=False, batch_size=sizes["batch"]
    )
    model = models.SoftAttentionLSTMModel(
        source_encoder=modules.LSTMEncoder(
            embedding_size=sizes["embedding"], hidden_size=sizes["hidden"], dropout=sizes["dropout"]
        ),
        embedding_size=sizes["embedding"],
        decoder_hidden_size=sizes["hidden"],
        decoder_dropout=sizes["dropout"],
        optimizer=partial(optimizers.Adam, lr=sizes["rate"]),
        vocab_size=data.vocab_size,
        target_vocab_size=data.target_vocab_size,
    )
    clock = Clock()
    trainer = trainers.Trainer(
        accelerator="cpu",
        max_epochs=-1,
        max_steps=warm_up + span + 1,
        gradient_clip_val=sizes["clip"],
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )
    trainer.fit(model, data)
    return {
        "seconds": clock.ready[warm_up + span] - clock.ready[warm_up],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


if __name__ == "__main__":
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")  # about missing validation and the small number of loader processes
    answer({"train": train})
