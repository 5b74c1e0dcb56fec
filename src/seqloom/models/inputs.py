"""Further inputs of a model, beside source and target: tags, a context sequence, features."""

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn

from seqloom.batch import Batch, Padded
from seqloom.errors import InputError, OptionError
from seqloom.nn.embedders import Embedder
from seqloom.nn.memory import DecoderState, Memory, for_rows
from seqloom.registry import Spec, build

Join = Literal["memory", "source", "target"]
STEP = "inputs.step"
"""In a state: the number of the step, where an input goes along with the target."""


class Inputs(nn.Module):
    """Further inputs by name, each with an embedder and the place where it joins. No encoder or decoder knows.

        memory: its vectors are appended to what attention reads;
        source: they are added to the source's vectors, step by step;
        target: they are concatenated to what is fed at every step.

    An input of a single step is repeated for all.

    described: by name ``{embedder: …, joins: …}``.
    sizes: of every field, by name.
    """

    def __init__(self, described: Mapping[str, Mapping[str, Any]] | None, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.joins: dict[str, Join] = {}
        self.embedders, self.linear = nn.ModuleDict(), nn.ModuleDict()
        for name, spec in (described or {}).items():
            unknown = set(spec) - {"embedder", "joins"}
            join = spec.get("joins")
            if unknown or join not in get_args(Join):
                raise OptionError(
                    f"inputs.{name} is {{embedder: …, joins: memory, source or target}}, but it is {dict(spec)}"
                )
            if name not in sizes:
                raise OptionError(f"inputs.{name}: the data has no field {name!r}, only {', '.join(sizes)}")
            embedder: Spec = spec.get("embedder", "tokens")
            self.embedders[name] = build("embedder", embedder, sizes[name])
            self.joins[name] = cast(Join, join)

    def fit(self, source_size: int | None, value_size: int | None) -> None:
        """Make the projections to the sizes of a source's vectors and of the memory's values."""
        for name, join in self.joins.items():
            size = {"memory": value_size, "source": source_size}.get(join)
            if join != "target" and size is None:
                raise OptionError(f"inputs.{name} joins the {join}, and a language model has none: use joins: target")
            if size is not None:
                self.linear[name] = nn.Linear(self._embedder(name).output_size, size, bias=False)

    @property
    def fed_size(self) -> int:
        """By how much the inputs that go along with the target make longer what is fed."""
        return sum(self._embedder(name).output_size for name in self._joining("target"))

    def to_source(self, source: Padded, batch: Batch) -> Padded:
        """The source's vectors with those of the inputs that join them."""
        values = source.values
        for name in self._joining("source"):
            x = self.linear[name](self._embedded(name, batch).values)
            if x.shape[1] not in (1, values.shape[1]):
                raise InputError(
                    f"the input {name!r} has {x.shape[1]} steps and the source {values.shape[1]}: to join the source "
                    "it needs as many, or a single one"
                )
            values = values + x
        return Padded(values, source.mask)

    def to_memory(self, values: Padded, batch: Batch) -> Padded:
        """What attention reads, with the inputs that join it appended."""
        added = [(name, self._embedded(name, batch)) for name in self._joining("memory")]
        if not added:
            return values
        return Padded(
            torch.cat((values.values, *(self.linear[name](x.values) for name, x in added)), 1),
            torch.cat((values.mask, *(x.mask for _, x in added)), 1),
        )

    def for_target(self, batch: Batch) -> dict[str, Tensor]:
        """What goes along with the target, for the memory: vectors that are zero where the input has ended."""
        found = {name: self._embedded(name, batch) for name in self._joining("target")}
        return {f"inputs.{name}": x.values.masked_fill(~x.mask[..., None], 0) for name, x in found.items()}

    def begin(self, state: DecoderState, memory: Memory) -> DecoderState:
        """A state before the first step, which counts steps if an input goes along with them."""
        if self._joining("target"):
            state[STEP] = torch.zeros(memory.rows, dtype=torch.long, device=memory.mask.device)
        return state

    def beside(self, e_RTE: Tensor, state: DecoderState, memory: Memory) -> Tensor:
        """What is fed at T steps, with the inputs that go along with them."""
        names = self._joining("target")
        if not names:
            return e_RTE
        R, T, _ = e_RTE.shape
        step_RT = state[STEP][:, None] + torch.arange(T, device=e_RTE.device)
        return torch.cat((e_RTE, *(self._at(memory[f"inputs.{name}"], step_RT, R) for name in names)), -1)

    @staticmethod
    def _at(x_BNE: Tensor, step_RT: Tensor, rows: int) -> Tensor:
        N = x_BNE.shape[1]
        x_RNE = for_rows(x_BNE, rows)
        if N == 1:
            return x_RNE.expand(-1, step_RT.shape[1], -1)
        index_RTE = step_RT.clamp(max=N - 1)[..., None].expand(-1, -1, x_BNE.shape[2])
        return x_RNE.gather(1, index_RTE).masked_fill((step_RT >= N)[..., None], 0)

    def advance(self, before: DecoderState, after: DecoderState, steps: int) -> None:
        """Count the steps."""
        if STEP in before:
            after[STEP] = before[STEP] + steps

    def _joining(self, join: Join) -> list[str]:
        return [name for name, where in self.joins.items() if where == join]

    def _embedder(self, name: str) -> Embedder:
        return cast(Embedder, self.embedders[name])

    def _embedded(self, name: str, batch: Batch) -> Padded:
        embedded: Padded = self._embedder(name)(batch[name])
        return embedded
