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
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.batch import START, Batch, Padded
from seqloom.errors import OptionError, SizeError
from seqloom.export.common import LIMITS, needed
from seqloom.models.base import Autoregressive
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.nn.memory import Decoded, Memory, State, Step
from seqloom.nn.outputs.tokens import TokenOutput, shifted

OPSET = 18
KEYS, FIRST, NEXT = "keys.", "first.", "next."
"""What the names of a memory's keys, of a first state and of a next state begin with."""


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
        state = State({n.removeprefix(FIRST): t for n, t in encoded.items() if n.startswith(FIRST)}).select(beams)
        memory = {n: t for n, t in encoded.items() if not n.startswith(FIRST)} | {"mask": mask}
        for _ in range(2):  # a past that grows must not be empty, lest it be left out
            state = model.step(beams, state, _memory(memory)).state
        step = _OneStep(model, list(state), list(memory))
        given = {"last": beams, **state, **memory}
        _write(step, given, list(step.named(*given.values())), folder / "step.onnx")
    limits = {
        "longest_source": model.longest_source,
        "longest_answer": model.decoder.longest,
        "on_source": "values" in model.decoder.reads,
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
        memory = self.model.prepare(Batch.unchecked({"source": Padded(source, mask)}))
        made = {name: tensor for name, tensor in _tensors(memory).items() if name != "mask"}
        return made | {f"{FIRST}{name}": tensor for name, tensor in self.model.start(memory).items()}


class _OneStep(nn.Module):
    """From the last tokens, a state and a memory to log-probabilities, weights of attention and the next state."""

    def __init__(self, model: Autoregressive, state: list[str], memory: list[str]) -> None:
        super().__init__()
        self.model, self.state, self.memory = model, state, memory

    def forward(self, last: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.named(last, *given).values())

    def named(self, last: Tensor, *given: Tensor) -> dict[str, Tensor]:
        """What is given, with its names."""
        state = State(zip(self.state, given, strict=False))
        memory = _memory(dict(zip(self.memory, given[len(self.state) :], strict=True)))
        step = self.model.step(last, state, memory)
        weights = {} if step.weights is None else {"weights": step.weights}
        log_probs = {"log_probs": self.model.output.log_probs(step, memory)}
        return log_probs | weights | {f"{NEXT}{name}": tensor for name, tensor in step.state.items()}


def _tensors(memory: Memory) -> dict[str, Tensor]:
    """What decoders read of a memory, by name."""
    named = {"values": memory.values, "mask": memory.mask}
    if memory.summary is not None:
        named["summary"] = memory.summary
    return named | {f"{KEYS}{name}": tensor for name, tensor in memory.keys.items()}


def _memory(named: Mapping[str, Tensor]) -> Memory:
    """The memory of which these are the tensors."""
    keys = {name.removeprefix(KEYS): tensor for name, tensor in named.items() if name.startswith(KEYS)}
    return Memory(named["values"], named["mask"], keys, named.get("summary"))


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
        self.output = OnnxOutput()
        limits = json.loads((folder / LIMITS).read_text(encoding="utf-8"))
        self.longest_source: int | None = limits["longest_source"]
        self.longest_answer: int | None = limits["longest_answer"]
        self.on_source: bool = limits["on_source"]

    def eval(self) -> "OnnxModel":
        """It is always in use, never in training."""
        return self

    def prepare(self, batch: Batch) -> Memory:
        """All that is fixed for the batch's sources; the first state is kept among its keys."""
        source, mask = batch["source"]
        _check_length("source", source.shape[1], self.longest_source)
        made = self.encoder({"source": source, "mask": mask})
        first = {name: tensor for name, tensor in made.items() if name.startswith(FIRST)}
        memory = _memory({name: made[name] for name in made.keys() - first.keys()} | {"mask": mask})
        memory.keys.update(first)
        return replace(memory, longest=self.longest_answer, on_source=self.on_source)

    def start(self, memory: Memory) -> State:
        """The state before the first step."""
        return State({n.removeprefix(FIRST): t for n, t in memory.keys.items() if n.startswith(FIRST)})

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """One step; its features are the log-probabilities."""
        made = self.stepper({"last": last, **state, **_tensors(memory)})
        after = State({n.removeprefix(NEXT): t for n, t in made.items() if n.startswith(NEXT)})
        return Step(made["log_probs"], made.get("weights"), after)

    def __call__(self, inputs: Tensor, memory: Memory, *, weights: bool = False) -> Decoded:
        """All steps of a known target, one after the other."""
        _check_length("target", inputs.shape[1] - 1, self.longest_answer)  # START is fed, too
        state, features = self.start(memory), []
        for last in inputs.unbind(1):
            step = self.step(last, state, memory)
            state = step.state
            features.append(step.features)
        return Decoded(torch.stack(features, 1), None)


def _check_length(what: str, length: int, longest: int | None) -> None:
    """Refuse what is longer than the positions that the model has learned."""
    if longest is not None and length > longest:
        raise SizeError(f"a {what} of {length} tokens is too long: this model knows positions for {longest}")


class OnnxOutput:
    """What search and scoring ask of an output, where a step has log-probabilities already."""

    needs_weights = False

    def start(self, memory: Memory) -> Tensor:
        """What is fed before anything is known."""
        return torch.full((len(memory),), START)

    def shift(self, target_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """What is fed for a known target."""
        return shifted(target_BT, mask_BT)

    def log_probs(self, step: Step, memory: Memory) -> Tensor:
        """The log-probability of every next token."""
        return step.features


class _Half:
    """A session of the runtime, from tensors by name to tensors by name."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.asks = [one.name for one in session.get_inputs()]
        self.gives = [one.name for one in session.get_outputs()]

    def __call__(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        made = self.session.run(None, {name: given[name].numpy() for name in self.asks})
        return {name: torch.from_numpy(array) for name, array in zip(self.gives, made, strict=True)}
