"""Models as ONNX: ``encoder.onnx`` encodes a source, and ``decoder_step.onnx`` computes one decoding step.

The maximum sequence lengths are in ``limits.json``.

The two files correspond to the methods that a search calls on a model (``encode`` and ``initial_state``, and
``next_log_probs``), so all searches, constraints and ensembles work with them and give the same results.
"""

import json
import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from seqloom.batch import BOS, Batch, Padded, shift
from seqloom.errors import ConfigError, ShapeError
from seqloom.export.common import LIMITS, import_required
from seqloom.models.base import Autoregressive
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.nn.memory import DecoderState, Memory, NextStep
from seqloom.nn.outputs.tokens import TokenOutput
from seqloom.nn.probe import Probe, no_probe

OPSET = 18
ENCODER, DECODER_STEP = "encoder.onnx", "decoder_step.onnx"
MEMORY, INITIAL, STATE, NEXT = "memory.", "initial_state.", "state.", "next_state."
"""Prefixes of the names of tensors of a memory and of states, both of which may contain a ``0.keys``."""
MEMORY_NAMES = {"values": "encoder_states", "mask": "mask"}
"""Tensors of a memory that have their own names, without the prefix."""
UNREAD = ("source", "final.")
"""Tensors of a memory that no decoding step reads."""


# -- export


def export(model: Autoregressive, folder: Path) -> None:
    """Write the encoder and the decoding step of a model into a folder."""
    import_required("onnx", "onnxscript")
    if not isinstance(model, EncoderDecoder) or not isinstance(model.output, TokenOutput):
        raise ConfigError("only encoder–decoders that generate tokens can be exported to ONNX")
    model = deepcopy(model).eval().cpu()  # leaves the caller's model unchanged
    # All dynamic sizes differ, so that the exporter can't mistake one for another, and the batch has padding.
    batch = Batch.from_lists(sources=[[4] * 5, [5] * 3, [6] * 2])
    source, mask = batch["source"]
    with torch.no_grad():
        encoder = _Encoder(model)
        encoded = encoder.named(source, mask)
        _write(encoder, {"source": source, "mask": mask}, list(encoded), folder / ENCODER)

        beams = torch.arange(3).repeat_interleave(4)
        state = DecoderState(_unprefixed(encoded, INITIAL)).select(beams)
        memory = Memory(_memory_tensors(encoded) | {"mask": mask})
        for _ in range(2):  # a growing cache must not be empty, or the exporter drops it
            state = model.step(beams, state, memory).state
        step = _DecoderStep(model, list(state), list(memory))
        given = {"prev_token": beams, **_prefixed(state, STATE), **_memory_names(memory)}
        _write(step, given, list(step.named(*given.values())), folder / DECODER_STEP)
    limits = {
        "max_source_length": model.max_source_length,
        "max_target_length": model.max_length,
        "attends_to": model.attends_to,
    }
    (folder / LIMITS).write_text(json.dumps(limits) + "\n", encoding="utf-8")


def quantize(folder: Path, into: Path) -> None:
    """Dynamic int8 quantization of the exported files in ``folder``: int8 weights and int8 activations."""
    onnx: Any = import_required("onnx")
    runtime: Any = import_required("onnxruntime")
    quantization: Any = import_required("onnxruntime.quantization")
    shutil.copy(folder / LIMITS, into)
    for file in (ENCODER, DECODER_STEP):
        # Constant folding first, so that the quantizer recognizes all weights.
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(into / file)
        runtime.InferenceSession(str(folder / file), options)
        model = onnx.load(str(into / file))
        model.graph.ClearField("value_info")  # some shapes in it are those of transposed weights
        _copy_embeddings(model.graph)
        shapes = {weight.name: list(weight.dims) for weight in model.graph.initializer}
        # Weights with a single column (v of additive attention) stay in float32: quantizing the activations, the
        # largest tensor of the model, takes longer than the matrix multiplication.
        narrow = [node.name for node in model.graph.node if any(shapes.get(i, [2])[-1:] == [1] for i in node.input)]
        with _without_log_messages("pre-processing"):  # it recommends the constant folding done above
            quantization.quantize_dynamic(
                model,
                str(into / file),
                weight_type=quantization.QuantType.QInt8,
                per_channel=True,
                # not LSTM: its weights may contain the large values that keep a state unchanged at padding
                op_types_to_quantize=["MatMul", "Gemm"],
                nodes_to_exclude=narrow,
            )


@contextmanager
def _without_log_messages(text: str) -> Iterator[None]:
    """Suppress log messages that contain ``text``."""

    def keep(record: logging.LogRecord) -> bool:
        return text not in record.getMessage()

    root = logging.getLogger()
    root.addFilter(keep)
    try:
        yield
    finally:
        root.removeFilter(keep)


def _copy_embeddings(graph: Any) -> None:
    """Copy the table of every embedding lookup: a tied output layer's copy is transposed and quantized."""
    tables = {weight.name: weight for weight in graph.initializer}
    for node in graph.node:
        if node.op_type == "Gather" and node.input[0] in tables:
            copy = graph.initializer.add()
            copy.CopyFrom(tables[node.input[0]])
            copy.name = f"{node.input[0]}.of.{node.name}"
            node.input[0] = copy.name


class _Encoder(nn.Module):
    """From a source and its mask to the memory (without the mask) and the initial decoder state."""

    def __init__(self, model: Autoregressive) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.named(source, mask).values())

    def named(self, source: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """The outputs by name."""
        memory = self.model.encode(Batch.unchecked({"source": Padded(source, mask)}))
        read = {name: tensor for name, tensor in memory.items() if name != "mask" and not name.startswith(UNREAD)}
        return _memory_names(read) | _prefixed(self.model.initial_state(memory), INITIAL)


class _DecoderStep(nn.Module):
    """From the previous tokens, a state and a memory to log-probabilities, attention weights and the next state."""

    def __init__(self, model: Autoregressive, state: list[str], memory: list[str]) -> None:
        super().__init__()
        self.model, self.state, self.memory = model, state, memory

    def forward(self, prev_token: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.named(prev_token, *given).values())

    def named(self, prev_token: Tensor, *given: Tensor) -> dict[str, Tensor]:
        """The outputs by name."""
        state = DecoderState(zip(self.state, given, strict=False))
        memory = Memory(zip(self.memory, given[len(self.state) :], strict=True))
        step = self.model.next_log_probs(prev_token, state, memory)
        attention = {} if step.attention is None else {"attention": step.attention}
        return {"log_probs": step.log_probs} | attention | _prefixed(step.state, NEXT)


def _prefixed(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def _unprefixed(tensors: Memory | Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names have the prefix, with the prefix removed."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _memory_names(memory: Memory | Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a memory under their names in ONNX."""
    return {MEMORY_NAMES.get(name, MEMORY + name): tensor for name, tensor in memory.items()}


def _memory_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a memory under their own names, the inverse of ``_memory_names``."""
    named = {name: tensors[onnx] for name, onnx in MEMORY_NAMES.items() if onnx in tensors}
    return named | _unprefixed(tensors, MEMORY)


def _write(module: nn.Module, given: Mapping[str, Tensor], results: list[str], file: Path) -> None:
    """Export a module with its sizes as dynamic as possible."""
    sizes = tuple(dict.fromkeys(range(tensor.dim()), torch.export.Dim.AUTO) for tensor in given.values())
    for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the exporter's own code
        program = torch.onnx.export(
            module,
            tuple(given.values()),
            input_names=list(given),
            output_names=results,
            dynamic_shapes=sizes if isinstance(module, _Encoder) else (sizes[0], sizes[1:]),
            dynamo=True,
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    program.save(str(file))


# -- inference


class OnnxModel:
    """An exported model in ONNX Runtime, with the methods that search and scoring need."""

    training = False
    device = torch.device("cpu")

    def __init__(self, folder: Path) -> None:
        runtime: Any = import_required("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # No busy-waiting: idle threads of the two sessions would take CPU time from each other and from PyTorch.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.encoder, self.decoder_step = (
            _Session(runtime.InferenceSession(str(folder / file), options)) for file in (ENCODER, DECODER_STEP)
        )
        limits = json.loads((folder / LIMITS).read_text(encoding="utf-8"))
        self.max_source_length: int | None = limits["max_source_length"]
        self.max_length: int | None = limits["max_target_length"]
        self.attends_to: Literal["source", "past"] | None = limits["attends_to"]

    def eval(self) -> "OnnxModel":
        """Nothing to do: an exported model is always in evaluation mode."""
        return self

    def encode(self, batch: Batch, *, probe: Probe = no_probe) -> Memory:
        """The memory of a batch; it also contains the initial state."""
        check_no_probe(probe)
        source, mask = batch["source"]
        _check_length("source", source.shape[1], self.max_source_length)
        outputs = self.encoder({"source": source, "mask": mask})
        initial = {name: tensor for name, tensor in outputs.items() if name.startswith(INITIAL)}
        return Memory({**_memory_tensors(outputs), "mask": mask, **initial})

    def initial_state(self, memory: Memory) -> DecoderState:
        """The initial decoder state."""
        return DecoderState(_unprefixed(memory, INITIAL))

    def next_log_probs(
        self, prev_token: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = no_probe
    ) -> NextStep:
        """One decoding step."""
        outputs = self.decoder_step({"prev_token": prev_token, **_prefixed(state, STATE), **_memory_names(memory)})
        return NextStep(outputs["log_probs"], outputs.get("attention"), DecoderState(_unprefixed(outputs, NEXT)))

    def log_probs(self, target: Padded, memory: Memory) -> Iterator[Tensor]:
        """All steps of a given target, one at a time."""
        _check_length("target", target.values.shape[1] - 1, self.max_length)  # BOS is also fed to the decoder
        state = self.initial_state(memory)
        for prev_token in shift(torch.full((memory.rows,), BOS), target).unbind(1):
            step = self.next_log_probs(prev_token, state, memory)
            state = step.state
            yield step.log_probs[:, None]


def check_no_probe(probe: Probe) -> None:
    """Raise if a probe is given: the activations of an exported model are not accessible."""
    if probe is not no_probe:
        raise ConfigError("exported models don't support probes: use PyTorch to inspect activations")


def _check_length(side: str, length: int, max_length: int | None) -> None:
    """Raise if a sequence is longer than the model's learned positions."""
    if max_length is not None and length > max_length:
        raise ShapeError(
            f"a {side} of {length} tokens is too long: the model has learned positions for {max_length} tokens"
        )


class _Session:
    """A session of ONNX Runtime with tensors by name as inputs and outputs."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.inputs = [node.name for node in session.get_inputs()]
        self.outputs = [node.name for node in session.get_outputs()]

    def __call__(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        arrays = self.session.run(None, {name: given[name].numpy() for name in self.inputs})
        return {name: torch.from_numpy(array) for name, array in zip(self.outputs, arrays, strict=True)}
