"""``Trace``: a record of a model's computation for one source: activations, attention weights and search history.

A trace is stored as one JSON object. Arrays are stored as ``{"dtype": …, "shape": […], "data": …}``, where data holds
little-endian numbers in base64; so they are exact, and readable in any language.
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
    """A probe that copies every activation by name, and changes none."""

    def __init__(self) -> None:
        self.activations: dict[str, npt.NDArray[Any]] = {}

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        self.activations[name] = tensor.detach().cpu().numpy().copy()
        return tensor


@dataclass(frozen=True)
class TopCandidates:
    """The candidates that one step of a search selected.

    rows: the row of the batch that each candidate extends, as in the activations of this step.
    parents: the candidate of the previous step that it extends; at the first step, the row.
    tokens: the token of each candidate.
    log_probs: the model's log-probability of each token.
    """

    rows: list[int]
    parents: list[int]
    tokens: list[str]
    log_probs: list[float]


@dataclass(frozen=True)
class TracedHypothesis:
    """One hypothesis, and its row in the batch at every step."""

    text: str
    tokens: list[str]
    log_prob: float
    token_log_probs: list[float]
    score: float
    finished: bool
    rows: list[int]


@dataclass(frozen=True, eq=False)
class Trace:
    """A record of a model's computation for one source.

    source: the source tokens.
    hypotheses: the results of the search, best first.
    steps: the search history: the selected candidates of every step.
    activations: all activations by name; names of a decoder step end with its number, and they have one row per
        hypothesis in the beam.
    """

    source: list[str]
    hypotheses: list[TracedHypothesis]
    steps: list[TopCandidates]
    activations: dict[str, npt.NDArray[Any]] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON types."""
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
        """The trace from which ``to_json`` made this data."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError("this is not a trace: create one with seqloom trace")
        if data.get("version") != VERSION:
            raise InputError(
                f"this trace has version {data.get('version')}, but this seqloom reads version {VERSION}: create "
                "a new one"
            )
        return cls(
            data["source"],
            [TracedHypothesis(**one) for one in data["hypotheses"]],
            [TopCandidates(**one) for one in data["steps"]],
            {name: _unpacked(array) for name, array in data["activations"].items()},
        )

    def save(self, path: Path | str) -> None:
        """Write the trace to a JSON file."""
        write(Path(path), json.dumps(self.to_json(), ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> "Trace":
        """Read a trace from a JSON file."""
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
