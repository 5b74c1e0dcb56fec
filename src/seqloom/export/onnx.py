"""Models as ONNX: ``encoder.onnx`` makes all that is fixed for a source, ``step.onnx`` one step of any beams.

Neither knows how long a sequence may be: that is in ``limits.json``.

They are the two halves of the protocol that search is written against, so every search, every constraint and every
ensemble works with them, and gives the same answers. What a step gives are log-probabilities.
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

from seqloom.batch import START, Batch, Padded, shift
from seqloom.errors import OptionError, SizeError
from seqloom.export.common import LIMITS, needed
from seqloom.models.base import Autoregressive
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.nn.memory import DecoderState, Memory, NextStep
from seqloom.nn.outputs.tokens import TokenOutput
from seqloom.nn.probe import Probe, silent

OPSET = 18
MEMORY, STATE, NEXT = "memory.", "state.", "next."
"""What the names of a memory's tensors, of a state and of a next state begin with: both may hold ``0.keys``."""
UNREAD = ("source", "final.")
"""What of a memory no step reads."""


# -- writing


def export(model: Autoregressive, folder: Path) -> None:
    """Write a model's two halves into a folder."""
    needed("onnx", "onnxscript")
    if not isinstance(model, EncoderDecoder) or not isinstance(model.output, TokenOutput):
        raise OptionError("only an encoder–decoder that writes tokens can be exported to ONNX")
    model = deepcopy(model).eval().cpu()  # the caller's stays where it is
    # Sizes that vary are all different here, lest one be taken for another; and something is padded.
    batch = Batch.of(sources=[[4] * 5, [5] * 3, [6] * 2])
    source, mask = batch["source"]
    with torch.no_grad():
        encoder = _Encoder(model)
        encoded = encoder.named(source, mask)
        _write(encoder, {"source": source, "mask": mask}, list(encoded), folder / "encoder.onnx")

        beams = torch.arange(3).repeat_interleave(4)
        state = DecoderState(_unprefixed(encoded, STATE)).select(beams)
        memory = Memory(_unprefixed(encoded, MEMORY) | {"mask": mask})
        for _ in range(2):  # a past that grows must not be empty, lest it be left out
            state = model.step(beams, state, memory).state
        step = _OneStep(model, list(state), list(memory))
        given = {"last": beams, **_prefixed(state, STATE), **_prefixed(memory, MEMORY)}
        _write(step, given, list(step.named(*given.values())), folder / "step.onnx")
    limits = {
        "longest_source": model.longest_source,
        "longest_answer": model.max_length,
        "attends_to": model.attends_to,
    }
    (folder / LIMITS).write_text(json.dumps(limits) + "\n", encoding="utf-8")


def quantise(folder: Path, into: Path) -> None:
    """The halves in a folder with weights of 8 bits; what they are multiplied with is rounded to 8 bits, too."""
    onnx: Any = needed("onnx")
    runtime: Any = needed("onnxruntime")
    quantization: Any = needed("onnxruntime.quantization")
    shutil.copy(folder / LIMITS, into)
    for half in ("encoder.onnx", "step.onnx"):
        # First what is computed from weights alone is computed, so that all weights are seen to be weights.
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(into / half)
        runtime.InferenceSession(str(folder / half), options)
        model = onnx.load(str(into / half))
        model.graph.ClearField("value_info")  # some of the sizes noted there are those of transposed weights
        _part_embeddings(model.graph)
        sizes = {weight.name: list(weight.dims) for weight in model.graph.initializer}
        # What has a single column (the v of additive attention) is left: to round what it is multiplied with, the
        # largest tensor of all, takes longer than the product.
        narrow = [node.name for node in model.graph.node if any(sizes.get(i, [2])[-1:] == [1] for i in node.input)]
        with _without_remarks("pre-processing"):  # it is done here
            quantization.quantize_dynamic(
                model,
                str(into / half),
                weight_type=quantization.QuantType.QInt8,
                per_channel=True,
                op_types_to_quantize=[
                    "MatMul",
                    "Gemm",
                ],  # not LSTM: its weights may hold what holds a state in padding
                nodes_to_exclude=narrow,
            )


@contextmanager
def _without_remarks(on: str) -> Iterator[None]:
    """Nothing is logged meanwhile that speaks of this."""

    def other(record: logging.LogRecord) -> bool:
        return on not in record.getMessage()

    root = logging.getLogger()
    root.addFilter(other)
    try:
        yield
    finally:
        root.removeFilter(other)


def _part_embeddings(graph: Any) -> None:
    """Give every look-up a table of its own: one that is also multiplied with will be turned and rounded for that."""
    tables = {weight.name: weight for weight in graph.initializer}
    for node in graph.node:
        if node.op_type == "Gather" and node.input[0] in tables:
            copy = graph.initializer.add()
            copy.CopyFrom(tables[node.input[0]])
            copy.name = f"{node.input[0]}.of.{node.name}"
            node.input[0] = copy.name


class _Encoder(nn.Module):
    """From a source and its mask to a memory, but for that mask, and a first state."""

    def __init__(self, model: Autoregressive) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.named(source, mask).values())

    def named(self, source: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """What is given, with its names."""
        memory = self.model.encode(Batch.unchecked({"source": Padded(source, mask)}))
        read = {name: tensor for name, tensor in memory.items() if name != "mask" and not name.startswith(UNREAD)}
        return _prefixed(read, MEMORY) | _prefixed(self.model.initial_state(memory), STATE)


class _OneStep(nn.Module):
    """From the last tokens, a state and a memory to log-probabilities, weights of attention and the next state."""

    def __init__(self, model: Autoregressive, state: list[str], memory: list[str]) -> None:
        super().__init__()
        self.model, self.state, self.memory = model, state, memory

    def forward(self, last: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.named(last, *given).values())

    def named(self, last: Tensor, *given: Tensor) -> dict[str, Tensor]:
        """What is given, with its names."""
        state = DecoderState(zip(self.state, given, strict=False))
        memory = Memory(zip(self.memory, given[len(self.state) :], strict=True))
        step = self.model.next_log_probs(last, state, memory)
        weights = {} if step.attention is None else {"weights": step.attention}
        return {"log_probs": step.log_probs} | weights | _prefixed(step.state, NEXT)


def _prefixed(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def _unprefixed(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names have the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _write(module: nn.Module, given: Mapping[str, Tensor], results: list[str], file: Path) -> None:
    """One half; its sizes vary as far as the model lets them."""
    sizes = tuple(dict.fromkeys(range(tensor.dim()), torch.export.Dim.AUTO) for tensor in given.values())
    for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of is inside the exporter
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


# -- running


class OnnxModel:
    """An exported model: whatever searches or scores a model can work on it."""

    training = False
    device = torch.device("cpu")

    def __init__(self, folder: Path) -> None:
        runtime: Any = needed("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # Threads that wait for work do so asleep: those of two sessions and of PyTorch would take each other's cores.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.encoder, self.stepper = (
            _Half(runtime.InferenceSession(str(folder / name), options)) for name in ("encoder.onnx", "step.onnx")
        )
        limits = json.loads((folder / LIMITS).read_text(encoding="utf-8"))
        self.longest_source: int | None = limits["longest_source"]
        self.max_length: int | None = limits["longest_answer"]
        self.attends_to: Literal["source", "past"] | None = limits["attends_to"]

    def eval(self) -> "OnnxModel":
        """It is always in use, never in training."""
        return self

    def encode(self, batch: Batch, *, probe: Probe = silent) -> Memory:
        """Everything that is fixed once the batch's sources are known; the first state is kept with it."""
        check_no_probe(probe)
        source, mask = batch["source"]
        _check_length("source", source.shape[1], self.longest_source)
        made = self.encoder({"source": source, "mask": mask})
        first = {name: tensor for name, tensor in made.items() if name.startswith(STATE)}
        return Memory({**_unprefixed(made, MEMORY), "mask": mask, **first})

    def initial_state(self, memory: Memory) -> DecoderState:
        """The state before the first step."""
        return DecoderState(_unprefixed(memory, STATE))

    def next_log_probs(self, last: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = silent) -> NextStep:
        """One step."""
        made = self.stepper({"last": last, **_prefixed(state, STATE), **_prefixed(memory, MEMORY)})
        return NextStep(made["log_probs"], made.get("weights"), DecoderState(_unprefixed(made, NEXT)))

    def log_probs(self, target: Padded, memory: Memory) -> Iterator[Tensor]:
        """All steps of a known target, one after the other."""
        _check_length("target", target.values.shape[1] - 1, self.max_length)  # START is fed, too
        state = self.initial_state(memory)
        for last in shift(torch.full((memory.rows,), START), target).unbind(1):
            step = self.next_log_probs(last, state, memory)
            state = step.state
            yield step.log_probs[:, None]


def check_no_probe(probe: Probe) -> None:
    """Refuse a probe: an engine shows nothing of what it computes."""
    if probe is not silent:
        raise OptionError("an exported model shows none of its activations: use PyTorch to look inside")


def _check_length(what: str, length: int, longest: int | None) -> None:
    """Refuse what is longer than the positions that the model has learned."""
    if longest is not None and length > longest:
        raise SizeError(f"a {what} of {length} tokens is too long: this model knows positions for {longest}")


class _Half:
    """A session of the runtime, from tensors by name to tensors by name."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.asks = [one.name for one in session.get_inputs()]
        self.gives = [one.name for one in session.get_outputs()]

    def __call__(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        made = self.session.run(None, {name: given[name].numpy() for name in self.asks})
        return {name: torch.from_numpy(array) for name, array in zip(self.gives, made, strict=True)}
