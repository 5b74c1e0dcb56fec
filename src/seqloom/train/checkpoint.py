"""What a run needs to go on as if it had never stopped, in one file."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from seqloom import __version__
from seqloom.errors import InputError, SeqloomError
from seqloom.files import write

FORMAT = 2
"""Of weights and checkpoints. In 1, recurrent models read their embeddings as they are, and Transformers multiplied
them after they had been projected to the model's size."""


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write it whole or not at all: a failed or interrupted write leaves the checkpoint before it."""
    content = io.BytesIO()
    torch.save({"format": FORMAT, "seqloom": __version__, "random": random_state(), **state}, content)
    write(path, content.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state that was saved, with the random numbers set back to where they were then."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: there is nothing to resume") from None
    except Exception as error:
        raise SeqloomError(f"{path} is no checkpoint that can be read: {error}") from None
    _check_format(path, str(state.get("format")))
    set_random_state(state["random"])
    return state


def random_state() -> dict[str, Any]:
    """Where every generator of random numbers stands that training draws from."""
    ask = _of_accelerator("get")
    return {"cpu": torch.get_rng_state(), "accelerator": None if ask is None else ask()}


def set_random_state(state: dict[str, Any]) -> None:
    """Go on from there."""
    torch.set_rng_state(state["cpu"])
    put = _of_accelerator("set")
    if put is not None and state.get("accelerator") is not None:
        put(state["accelerator"])


def _of_accelerator(action: str) -> Callable[..., Any] | None:
    """To get or set the generators of all devices of the accelerator; None if there is none.

    CUDA, XPU and others have several; MPS has a single device, and so no function for all.
    """
    if not torch.accelerator.is_available():
        return None
    module = torch.get_device_module()
    found: Callable[..., Any] = getattr(module, f"{action}_rng_state_all", None) or getattr(
        module, f"{action}_rng_state"
    )
    return found


def distinct(network: nn.Module) -> dict[str, Tensor]:
    """A network's tensors by name; of one with two names (shared embeddings), the first."""
    seen: set[int] = set()
    tensors = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor.detach()
    return tensors


def save_weights(path: Path, tensors: dict[str, Tensor]) -> None:
    """Weights as safetensors."""
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    # One entry, as safetensors writes several in any order, and equal weights are to be equal files.
    write(path, safetensors.torch.save(contiguous, metadata={"seqloom_format": str(FORMAT)}))


def load_weights(path: Path) -> dict[str, Tensor]:
    """Weights from safetensors."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            written = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise SeqloomError(f"the weights {path} can't be read: {error}") from None
    _check_format(path, written.get("seqloom_format", "1"))
    return tensors


def _check_format(path: Path, found: str) -> None:
    if found != str(FORMAT):
        raise SeqloomError(
            f"{path} was written by another version of seqloom (format {found}, and this one reads {FORMAT}): train "
            "the run anew, or use the version that made it"
        )


def put_weights(network: nn.Module, tensors: dict[str, Tensor], where: object) -> None:
    """Give a network its weights, every one of them."""
    missing = distinct(network).keys() - tensors.keys()
    try:
        unexpected = network.load_state_dict(tensors, strict=False).unexpected_keys
    except RuntimeError as error:
        raise SeqloomError(f"the weights {where} do not fit the model: {error}") from None
    if missing or unexpected:
        raise SeqloomError(f"the weights {where} do not fit: missing {sorted(missing)}, unknown {sorted(unexpected)}")
