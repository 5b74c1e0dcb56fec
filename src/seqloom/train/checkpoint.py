"""Checkpoints: everything that is needed to resume training with bit-identical results, in one file."""

import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from seqloom import __version__
from seqloom.errors import InputError, SeqloomError
from seqloom.files import write

FORMAT = 3
"""Format version of weights and checkpoints. Version 2 has the same content under other names and can still be read.
Version 1 can't: its recurrent models did not scale their embeddings, and its Transformers scaled them after the
projection to the model's hidden size."""


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Save a checkpoint atomically: if writing fails or is interrupted, the previous checkpoint remains."""
    content = io.BytesIO()
    torch.save({"format": FORMAT, "seqloom": __version__, "random": random_state(), **state}, content)
    write(path, content.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint, and restore the state of the random number generators."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: there is no checkpoint to resume") from None
    except Exception as error:
        raise SeqloomError(f"{path} is not a valid checkpoint: {error}") from None
    if state.get("format") == 2:
        state = _from_format_2(state)
    _check_format(path, str(state.get("format")))
    set_random_state(state["random"])
    return state


def _from_format_2(state: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint of format 2, with the names of format 3."""
    ema = state["moving"] and {**state["moving"], "means": _renamed(state["moving"]["means"])}
    trainer = {"nll_loss" if key == "plain_loss" else key: value for key, value in state["standing"].items()}
    return {
        "format": FORMAT,
        "seqloom": state["seqloom"],
        "random": state["random"],
        "network": _renamed(state["network"]),
        "optimizer": state["optimiser"],  # codespell:ignore optimiser
        "schedule": state["schedule"],
        "ema": ema,
        "carry": state.get("carry"),
        "trainer": trainer,
    }


def _renamed(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors of format 2, with the names of format 3."""
    return {re.sub(r"^source\.", "source_embedder.", name): tensor for name, tensor in tensors.items()}


def random_state() -> dict[str, Any]:
    """The state of every random number generator that training uses."""
    get = _accelerator_function("get")
    return {"cpu": torch.get_rng_state(), "accelerator": None if get is None else get()}


def set_random_state(state: dict[str, Any]) -> None:
    """Restore the state of the random number generators."""
    torch.set_rng_state(state["cpu"])
    set_state = _accelerator_function("set")
    if set_state is not None and state.get("accelerator") is not None:
        set_state(state["accelerator"])


def _accelerator_function(action: str) -> Callable[..., Any] | None:
    """The function that gets or sets the generators of all accelerator devices; None without an accelerator.

    CUDA, XPU and others have a function for all devices; MPS has a single device and only a function for that.
    """
    if not torch.accelerator.is_available():
        return None
    module = torch.get_device_module()
    function: Callable[..., Any] = getattr(module, f"{action}_rng_state_all", None) or getattr(
        module, f"{action}_rng_state"
    )
    return function


def unique_tensors(network: nn.Module) -> dict[str, Tensor]:
    """The tensors of a network by name; a tensor with two names (shared embeddings) appears once, under the first."""
    seen: set[int] = set()
    tensors = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor.detach()
    return tensors


def save_weights(path: Path, tensors: dict[str, Tensor]) -> None:
    """Save weights as safetensors."""
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    # A single metadata entry: safetensors writes several in any order, but equal weights must give equal files.
    write(path, safetensors.torch.save(contiguous, metadata={"seqloom_format": str(FORMAT)}))


def load_weights(path: Path) -> dict[str, Tensor]:
    """Load weights from safetensors."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise SeqloomError(f"can't read the weights in {path}: {error}") from None
    found = metadata.get("seqloom_format", "1")
    if found == "2":
        return _renamed(tensors)
    _check_format(path, found)
    return tensors


def _check_format(path: Path, found: str) -> None:
    if found != str(FORMAT):
        newer = found.isdecimal() and int(found) > FORMAT
        remedy = "update seqloom" if newer else "train the model again, or use the version that wrote the file"
        raise SeqloomError(
            f"{path} has format {found}, but this version of seqloom reads formats 2 and {FORMAT}: {remedy}"
        )


def load_into(network: nn.Module, tensors: dict[str, Tensor], where: object) -> None:
    """Load weights into a network; every tensor must be given.

    where: the file of the weights, for error messages.
    """
    missing = unique_tensors(network).keys() - tensors.keys()
    try:
        unexpected = network.load_state_dict(tensors, strict=False).unexpected_keys
    except RuntimeError as error:
        raise SeqloomError(f"the weights in {where} don't match the model: {error}") from None
    if missing or unexpected:
        raise SeqloomError(
            f"the weights in {where} don't match the model: missing {sorted(missing)}, "
            f"unexpected {sorted(unexpected)}"
        )
