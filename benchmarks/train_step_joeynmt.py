"""Worker of ``train_step.py`` for JoeyNMT: its own model, batch, loss and trainer."""

import logging
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from harness.worker import Run, serve
from joeynmt.batch import Batch
from joeynmt.config import parse_train_args
from joeynmt.model import build_model
from joeynmt.training import TrainManager
from joeynmt.vocabulary import Vocabulary

UNK, PAD, BOS, EOS = range(4)
OURS = np.array([PAD, BOS, EOS, UNK])
"""JoeyNMT's ids of the four special tokens, in the order of the ids in the batches."""
SYMBOLS = SimpleNamespace(
    unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
    unk_id=UNK, pad_id=PAD, bos_id=BOS, eos_id=EOS, sep_id=None,
)  # fmt: skip


def describe(model: str, sizes: dict[str, Any]) -> dict[str, Any]:
    """Return the ``model`` section of a JoeyNMT configuration."""
    size, dropout = sizes["size"], sizes["dropout"]
    embeddings = {"embedding_dim": size, "dropout": dropout, "scale": model == "transformer"}
    if model == "transformer":
        stack = {
            "type": "transformer",
            "num_layers": sizes["layers"],
            "num_heads": sizes["heads"],
            "hidden_size": size,
            "ff_size": sizes["feed_forward"],
            "dropout": dropout,
            "layer_norm": "pre",
            "embeddings": embeddings,
        }
        return {"encoder": stack, "decoder": stack}
    stack = {
        "type": "recurrent",
        "rnn_type": "gru" if model == "bahdanau" else "lstm",
        "num_layers": 2 if model == "luong" else 1,
        "hidden_size": size,
        "dropout": dropout,
        "embeddings": embeddings,
    }
    encoder = {"bidirectional": True, "hidden_size": size // 2 if model == "luong" else size}
    decoder = {
        "attention": "luong" if model == "luong" else "bahdanau",
        "input_feeding": True,
        "init_hidden": "bridge",
        "hidden_dropout": 0.0,
    }
    return {"encoder": stack | encoder, "decoder": stack | decoder}


def read(source: np.ndarray, target: np.ndarray) -> Batch:
    """Convert token ids to a JoeyNMT batch: its order of special tokens, and BOS before every target."""
    source, target = (np.where(ids < 4, OURS[np.minimum(ids, 3)], ids) for ids in (source, target))
    source, target = torch.from_numpy(source), torch.from_numpy(target)
    return Batch(
        src=source,
        src_length=(source != PAD).sum(1),
        src_prompt_mask=None,
        trg=torch.nn.functional.pad(target, (1, 0), value=BOS),
        trg_prompt_mask=None,
        indices=torch.arange(len(source)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=EOS,
        is_train=True,
    )


def make(model: str, vocabulary: int, batches: str, sizes: dict[str, Any]) -> Run:
    """Training steps of a model on the batches of a file, with the code of JoeyNMT's training loop."""
    torch.manual_seed(0)
    data = np.load(batches)
    symbols = Vocabulary([f"w{n}" for n in range(4, vocabulary)], SYMBOLS)
    assert len(symbols) == vocabulary
    made = build_model(describe(model, sizes), src_vocab=symbols, trg_vocab=symbols)
    made.loss_function = ("crossentropy", 0.0)
    training = {
        "batch_size": len(data["source_0"]),
        "normalization": "tokens",
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "clip_grad_norm": 1.0,
        "scheduling": "exponential",  # required; acts only between epochs
    }
    manager = TrainManager(
        rank=1,  # rank 0 would also write a TensorBoard log
        model=made,
        model_dir=Path(batches).parent,
        device=torch.device("cpu"),
        autocast={"device_type": "cpu", "enabled": False},
        train_args=parse_train_args(training),
    )
    ready = [read(data[f"source_{number}"], data[f"target_{number}"]) for number in range(len(data) // 2)]

    def step(number: int) -> float:
        loss, _ = manager._train_step(copy(ready[number]))
        manager.clip_grad_fun(parameters=made.parameters())
        manager.optimizer.step()
        made.zero_grad()
        return loss

    return step


if __name__ == "__main__":
    logging.disable(logging.INFO)
    serve(make)
