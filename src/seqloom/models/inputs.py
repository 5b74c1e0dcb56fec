"""Further inputs of a model, besides source and target: tags, a context sequence, feature vectors."""

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn

from seqloom.batch import Batch, Padded
from seqloom.errors import ConfigError, InputError
from seqloom.nn.embedders import Embedder
from seqloom.nn.memory import DecoderState, Memory, repeat_for_beams
from seqloom.registry import Spec, build

Join = Literal["memory", "source", "target"]
STEP = "inputs.step"
"""The state entry with the index of the next step, which exists if an input joins the target."""


class Inputs(nn.Module):
    """Further inputs by name, each with an embedder and what it joins. Encoders and decoders are not aware of them.

        memory: the input's vectors are appended to the values that attention reads;
        source: they are added to the source embeddings, step by step;
        target: they are concatenated to the decoder's input at every step.

    An input with a single step is repeated for all steps.

    specs: ``{embedder: …, joins: …}`` of every input, by name.
    sizes: the size of every field, by name.
    """

    def __init__(self, specs: Mapping[str, Mapping[str, Any]] | None, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.joins: dict[str, Join] = {}
        self.embedders, self.linear = nn.ModuleDict(), nn.ModuleDict()
        for name, spec in (specs or {}).items():
            unknown = set(spec) - {"embedder", "joins"}
            join = spec.get("joins")
            if unknown or join not in get_args(Join):
                raise ConfigError(
                    f"inputs.{name}={dict(spec)} is invalid: write {{embedder: …, joins: memory, source or target}}"
                )
            if name not in sizes:
                raise ConfigError(f"inputs.{name}: the data has no field {name!r}, only {', '.join(sizes)}")
            embedder: Spec = spec.get("embedder", "tokens")
            self.embedders[name] = build("embedder", embedder, sizes[name])
            self.joins[name] = cast(Join, join)

    def set_sizes(self, source_size: int | None, value_size: int | None) -> None:
        """Create the projections to the sizes of the source embeddings and of the memory's values."""
        for name, join in self.joins.items():
            size = {"memory": value_size, "source": source_size}.get(join)
            if join != "target" and size is None:
                raise ConfigError(f"inputs.{name} joins the {join}, but a language model has none: use joins: target")
            if size is not None:
                self.linear[name] = nn.Linear(self._embedder(name).output_size, size, bias=False)

    @property
    def fed_size(self) -> int:
        """The total size of the vectors that are concatenated to the decoder's input."""
        return sum(self._embedder(name).output_size for name in self._joining("target"))

    def join_source(self, source: Padded, batch: Batch) -> Padded:
        """The source embeddings plus the vectors of the inputs that join the source."""
        values = source.values
        for name in self._joining("source"):
            x = self.linear[name](self._embedded(name, batch).values)
            if x.shape[1] not in (1, values.shape[1]):
                raise InputError(
                    f"the input {name!r} has {x.shape[1]} steps and the source {values.shape[1]}: an input that "
                    "joins the source needs the same number of steps, or a single one"
                )
            values = values + x
        return Padded(values, source.mask)

    def join_memory(self, values: Padded, batch: Batch) -> Padded:
        """The values that attention reads, followed by the vectors of the inputs that join the memory."""
        added = [(name, self._embedded(name, batch)) for name in self._joining("memory")]
        if not added:
            return values
        return Padded(
            torch.cat((values.values, *(self.linear[name](x.values) for name, x in added)), 1),
            torch.cat((values.mask, *(x.mask for _, x in added)), 1),
        )

    def target_entries(self, batch: Batch) -> dict[str, Tensor]:
        """The memory entries of the inputs that join the target: vectors, zero after the end of an input."""
        embedded = {name: self._embedded(name, batch) for name in self._joining("target")}
        return {f"inputs.{name}": x.values.masked_fill(~x.mask[..., None], 0) for name, x in embedded.items()}

    def add_step(self, state: DecoderState, memory: Memory) -> DecoderState:
        """An initial state, with the step index if an input joins the target."""
        if self._joining("target"):
            state[STEP] = torch.zeros(memory.rows, dtype=torch.long, device=memory.mask.device)
        return state

    def join_target(self, e_RTE: Tensor, state: DecoderState, memory: Memory) -> Tensor:
        """The decoder's inputs at T steps, with the vectors of the inputs that join the target."""
        names = self._joining("target")
        if not names:
            return e_RTE
        R, T, _ = e_RTE.shape
        step_RT = state[STEP][:, None] + torch.arange(T, device=e_RTE.device)
        return torch.cat((e_RTE, *(self._at(memory[f"inputs.{name}"], step_RT, R) for name in names)), -1)

    @staticmethod
    def _at(x_BNE: Tensor, step_RT: Tensor, rows: int) -> Tensor:
        N = x_BNE.shape[1]
        x_RNE = repeat_for_beams(x_BNE, rows)
        if N == 1:
            return x_RNE.expand(-1, step_RT.shape[1], -1)
        index_RTE = step_RT.clamp(max=N - 1)[..., None].expand(-1, -1, x_BNE.shape[2])
        return x_RNE.gather(1, index_RTE).masked_fill((step_RT >= N)[..., None], 0)

    def advance(self, before: DecoderState, after: DecoderState, steps: int) -> None:
        """Increment the step index of the new state, if there is one."""
        if STEP in before:
            after[STEP] = before[STEP] + steps

    def _joining(self, join: Join) -> list[str]:
        return [name for name, joins in self.joins.items() if joins == join]

    def _embedder(self, name: str) -> Embedder:
        return cast(Embedder, self.embedders[name])

    def _embedded(self, name: str, batch: Batch) -> Padded:
        embedded: Padded = self._embedder(name)(batch[name])
        return embedded
