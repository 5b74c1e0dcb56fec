"""The worker of ``train_step.py`` for seqloom."""

from typing import Any

import numpy as np
import torch
from harness.worker import Run, serve

from seqloom import build_model
from seqloom.batch import PAD, Batch, Padded
from seqloom.train.clipping import clip


def describe(model: str, sizes: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The preset and the settings of one of the benchmark's models."""
    dropout = sizes["dropout"]
    if model == "transformer":
        stack = {
            "layers": sizes["layers"],
            "heads": sizes["heads"],
            "feed_forward": sizes["feed_forward"],
            "dropout": dropout,
            "norm": "before",
        }
        settings = {f"{part}.{option}": value for part in ("encoder", "decoder") for option, value in stack.items()}
        return model, settings | {"output.tied": False, "output.label_smoothing": 0.0}
    settings = {f"{part}.dropout": dropout for part in ("source", "encoder", "decoder", "output")}
    if model != "bilstm":
        return model, settings
    return "luong", settings | {
        "encoder.bidirectional": True,
        "encoder.layers": 1,
        "decoder.layers": 1,
        "bridge": "perceptron",
        "decoder.attention.score": "additive",
    }


def make(model: str, vocabulary: int, batches: str, sizes: dict[str, Any]) -> Run:
    """Training steps of a model on the batches of a file."""
    torch.manual_seed(0)
    data = np.load(batches)
    preset, settings = describe(model, sizes)
    made = build_model(
        preset, sizes={"source": vocabulary, "target": vocabulary}, size=sizes["size"], settings=settings
    ).train()
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-3, fused=True)

    def batch(number: int) -> Batch:
        source, target = (torch.from_numpy(data[f"{side}_{number}"]) for side in ("source", "target"))
        return Batch({"source": Padded(source, source != PAD), "target": Padded(target, target != PAD)})

    ready = [batch(number) for number in range(len(data) // 2)]

    def step(number: int) -> float:
        loss = made.loss(ready[number]).mean
        loss.backward()  # type: ignore[no-untyped-call]
        clip(made.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


if __name__ == "__main__":
    serve(make)
