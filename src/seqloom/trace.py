"""``Trace``: what a model did with one source, recorded: activations, attention, and the history of the beam.

A trace is one JSON object. An array in it is ``{"dtype": …, "shape": […], "data": …}``, its data being little-endian
numbers in base64: nothing is lost, and any language can read it.
"""

import base64
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from seqloom.errors import InputError
from seqloom.files import write

FORMAT = "seqloom trace"
VERSION = 1


class Recorder:
    """A probe that keeps a copy of every activation it sees, by name, and changes nothing."""

    def __init__(self) -> None:
        self.seen: dict[str, npt.NDArray[Any]] = {}

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        self.seen[name] = tensor.detach().cpu().numpy().copy()
        return tensor


@dataclass(frozen=True)
class Candidates:
    """What one step of a search chose.

    rows: the row of the beam that each continues, as in the activations of this step.
    parents: the candidate of the step before that it continues; at the first step, the row.
    tokens, log_probs: what was chosen, and the model's log-probability of it.
    """

    rows: list[int]
    parents: list[int]
    tokens: list[str]
    log_probs: list[float]


@dataclass(frozen=True)
class TracedHypothesis:
    """One result: what was written, and which row of the beam it was at every step."""

    text: str
    tokens: list[str]
    log_prob: float
    token_log_probs: list[float]
    score: float
    finished: bool
    rows: list[int]


@dataclass(frozen=True, eq=False)
class Trace:
    """One source through a model.

    source: its tokens.
    hypotheses: the results of the search, best first.
    steps: the beam history: the candidates of every step.
    activations: everything that a probe saw, by name; those of a step end in its number and have a row per beam.
    """

    source: list[str]
    hypotheses: list[TracedHypothesis]
    steps: list[Candidates]
    activations: dict[str, npt.NDArray[Any]] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "source": self.source,
            "hypotheses": [asdict(one) for one in self.hypotheses],
            "steps": [asdict(one) for one in self.steps],
            "activations": {name: _packed(array) for name, array in self.activations.items()},
        }

    @classmethod
    def from_json(cls, data: Any) -> "Trace":
        """What ``to_json`` gave, as a trace again."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError("this is not a trace; make one with seqloom trace")
        if data.get("version") != VERSION:
            raise InputError(f"this trace has version {data.get('version')}, and this seqloom reads {VERSION}")
        return cls(
            data["source"],
            [TracedHypothesis(**one) for one in data["hypotheses"]],
            [Candidates(**one) for one in data["steps"]],
            {name: _unpacked(array) for name, array in data["activations"].items()},
        )

    def save(self, path: Path | str) -> None:
        """Write it as JSON."""
        write(Path(path), json.dumps(self.to_json(), ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> "Trace":
        """A trace from a file."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path} can't be read: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{path} is not a trace: {error}") from None
        return cls.from_json(data)


def _packed(array: npt.NDArray[Any]) -> dict[str, Any]:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "data": base64.b64encode(little.tobytes()).decode("ascii"),
    }


def _unpacked(packed: dict[str, Any]) -> npt.NDArray[Any]:
    numbers = np.frombuffer(base64.b64decode(packed["data"]), np.dtype(packed["dtype"]).newbyteorder("<"))
    return numbers.reshape(packed["shape"]).astype(packed["dtype"])
