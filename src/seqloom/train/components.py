"""Components of the trainer: batcher, objective, compiled loss, precision check and TensorBoard writer."""

import subprocess
import sys
from typing import Any

import torch

from seqloom.config import TrainConfig
from seqloom.data.batchers import Batcher, BatchSize
from seqloom.data.corpus import Corpus
from seqloom.errors import ConfigError
from seqloom.models.base import Autoregressive
from seqloom.registry import build
from seqloom.train.folder import RunFolder
from seqloom.train.objectives import Objective


def build_batcher(corpus: Corpus, config: TrainConfig, seed: int) -> Batcher:
    """The batcher of a corpus, with the configured batch size."""
    if (config.batch_tokens is None) == (config.batch_sentences is None):
        raise ConfigError("set either train.batch_tokens or train.batch_sentences, not both")
    size = BatchSize(config.batch_tokens, config.batch_sentences)
    batcher: Batcher = build("batcher", config.batcher, corpus, size, seed)
    return batcher


def build_objective(config: TrainConfig) -> Objective:
    """The configured objective: by default scheduled sampling if it is set, else teacher forcing."""
    if config.objective is not None and config.scheduled_sampling is not None:
        raise ConfigError(
            "train.objective and train.scheduled_sampling can't both be set: train.scheduled_sampling selects the "
            "objective scheduled_sampling; remove one of them"
        )
    scheduled = (
        None
        if config.scheduled_sampling is None
        else {"name": "scheduled_sampling", "decay": config.scheduled_sampling}
    )
    objective: Objective = build("objective", config.objective or scheduled or "teacher_forcing")
    return objective


def compile_loss(network: Autoregressive) -> None:
    """Compile the loss of a network with torch.compile, except methods that take longer to compile than they save."""
    # The methods are marked here, not where they are defined: PyTorch's decorator imports the compiler (1 s).
    for part in network.modules():
        for method in getattr(part, "uncompiled", ()):
            setattr(part, method, torch.compiler.disable(getattr(part, method)))  # type: ignore[no-untyped-call]
    network.loss = torch.compile(network.loss, dynamic=True)  # type: ignore[method-assign]


def check_precision(config: TrainConfig, device: torch.device) -> None:
    """Check bfloat16 in a separate process: it crashes on machines that report instructions they don't support."""
    if config.precision == "bfloat16" and device.type == "cpu":
        matmul = "import torch; a = torch.ones(256, 256, dtype=torch.bfloat16); a @ a"
        if subprocess.run([sys.executable, "-c", matmul], capture_output=True).returncode != 0:
            raise ConfigError(
                "train.precision=bfloat16 crashes on this machine: its CPU does not support the instructions. Use "
                "float32, or set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"
            )


def open_tensorboard(folder: RunFolder, update: int) -> Any:
    """A TensorBoard writer for a run; events after ``update`` are hidden, because they will be written again."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError("train.tensorboard needs TensorBoard: pip install 'seqloom[tensorboard]'") from None
    return SummaryWriter(folder.path / "tensorboard", purge_step=update + 1 if update else None)
