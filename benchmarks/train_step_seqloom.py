"""Worker of ``train_step.py`` for seqloom."""

from typing import Any

import numpy as np
import torch
from harness.worker import Run, serve

from seqloom import build_model
from seqloom.batch import PAD, Batch, Padded
from seqloom.train.clipping import clip_grad_norm


def describe(model: str, sizes: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the preset and the overrides of one of the benchmark's models."""
    dropout = sizes["dropout"]
    if model == "transformer":
        stack = {
            "layers": sizes["layers"],
            "heads": sizes["heads"],
            "ff_size": sizes["feed_forward"],
            "dropout": dropout,
            "layer_norm": "pre",
        }
        overrides = {f"{part}.{option}": value for part in ("encoder", "decoder") for option, value in stack.items()}
        return model, overrides | {"output.tie_output_embeddings": False, "output.label_smoothing": 0.0}
    overrides = {f"{part}.dropout": dropout for part in ("source_embedder", "encoder", "decoder", "output")}
    if model == "bahdanau":
        return model, overrides
    layers = 1 if model == "bilstm" else 2
    overrides |= {"source_embedder.reverse": False, "encoder.layers": layers, "decoder.layers": layers}
    if model == "luong":
        return model, overrides
    return "luong", overrides | {
        "encoder.bidirectional": True,
        "bridge": "dense",
        "decoder.attention.score": "additive",
    }


def make(model: str, vocabulary: int, batches: str, sizes: dict[str, Any]) -> Run:
    """Training steps of a model on the batches of a file."""
    torch.manual_seed(0)
    data = np.load(batches)
    preset, overrides = describe(model, sizes)
    made = build_model(
        preset, sizes={"source": vocabulary, "target": vocabulary}, hidden_size=sizes["size"], overrides=overrides
    ).train()
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-3, fused=True)

    def batch(number: int) -> Batch:
        source, target = (torch.from_numpy(data[f"{side}_{number}"]) for side in ("source", "target"))
        return Batch({"source": Padded(source, source != PAD), "target": Padded(target, target != PAD)})

    ready = [batch(number) for number in range(len(data) // 2)]

    def step(number: int) -> float:
        loss = made.loss(ready[number]).mean
        loss.backward()  # type: ignore[no-untyped-call]
        clip_grad_norm(made.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


if __name__ == "__main__":
    serve(make)
