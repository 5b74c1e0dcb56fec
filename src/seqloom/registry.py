"""Every kind of part by name: found by importing its folder, checked against its own signature.

A part is a class under ``@register(kind, name)``. What its surroundings dictate (the sizes of its inputs) it
takes by position; what a person may set are its keyword-only arguments, so a signature *is* the list of options
and nothing repeats it. A specification names a part and sets options: ``"lstm"``, or
``{"name": "lstm", "forget_bias": 0.0}``.
"""

import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from seqloom.errors import OptionError, SeqloomError, unknown

Spec = str | Mapping[str, Any]
Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
T = TypeVar("T")


@dataclass(frozen=True)
class Of:
    """Says of an option which kind of part it is, where its name does not: ``Annotated[Spec, Of("embedder")]``."""

    kind: str


@dataclass(frozen=True)
class Kind:
    """One kind of part: what it is for, and the package or module whose import registers all of it."""

    meaning: str
    home: str


KINDS: dict[str, Kind] = {
    "cell": Kind("one step of a recurrence", "seqloom.nn.cells"),
    "score": Kind("how well a query matches a key", "seqloom.nn.attention"),
    "normaliser": Kind("from scores to the weights of attention", "seqloom.nn.attention"),
    "positions": Kind("where a step stands in its sequence", "seqloom.nn.positions"),
    "embedder": Kind("raw input as vectors", "seqloom.nn.embedders"),
    "output": Kind("what goes out, and how it is judged", "seqloom.nn.outputs"),
    "model": Kind("a whole model", "seqloom.models"),
    "encoder": Kind("the source in its context", "seqloom.models.encoders"),
    "bridge": Kind("from the encoder to the decoder's first state", "seqloom.models.bridges"),
    "decoder": Kind("the target, one step after another", "seqloom.models.decoders"),
    "readout": Kind("from a recurrent decoder's state and context to features", "seqloom.models.readouts"),
    "reader": Kind("how examples are read from a file format", "seqloom.data.readers"),
    "field": Kind("what a column of the data is", "seqloom.data.fields"),
    "batcher": Kind("how a corpus becomes batches", "seqloom.data.batchers"),
    "tokenizer": Kind("how text is cut into tokens", "seqloom.data.tokenizers"),
    "task": Kind("data that ships with seqloom or is made by it", "seqloom.tasks"),
    "optimiser": Kind("how gradients become new weights", "seqloom.train.optimisers"),
    "schedule": Kind("the learning rate over the steps of training", "seqloom.train.schedules"),
    "objective": Kind("how a batch becomes a loss", "seqloom.train.objectives"),
    "sampling": Kind("how often training feeds the model's own tokens", "seqloom.train.sampling"),
    "search": Kind("how answers are found", "seqloom.decode"),
    "truncation": Kind("which tokens sampling draws from", "seqloom.decode.truncation"),
    "metric": Kind("how answers are judged", "seqloom.metrics"),
}

_parts: dict[str, dict[str, type]] = {kind: {} for kind in KINDS}
_imported: set[str] = set()


def register(kind: str, name: str) -> Callable[[type[T]], type[T]]:
    """Class decorator: make a class the part ``name`` of ``kind``."""
    if kind not in KINDS:
        raise unknown("kind of part", kind, KINDS)

    def add(cls: type[T]) -> type[T]:
        there = _parts[kind].get(name)
        if there is not None and _full_name(there) != _full_name(cls):
            raise SeqloomError(f"two parts want to be {kind} {name!r}: {_full_name(there)} and {_full_name(cls)}")
        if not cls.__doc__:
            raise SeqloomError(f"{kind} {name!r} needs a docstring: its first line is its meaning in every list")
        _parts[kind][name] = cls
        return cls

    return add


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def parts(kind: str) -> dict[str, type]:
    """All parts of a kind by name, sorted."""
    if kind not in KINDS:
        raise unknown("kind of part", kind, KINDS)
    _import_home(KINDS[kind].home)
    _import_entry_points()
    return dict(sorted(_parts[kind].items()))


def find(kind: str, name: str) -> type:
    """The class of one part."""
    known = parts(kind)
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def meaning(part: type) -> str:
    """The first line of a part's docstring."""
    return (inspect.getdoc(part) or "").splitlines()[0]


def explained(part: type) -> dict[str, str]:
    """What a part's docstring says of each of its options: the paragraphs that begin ``name: …`` or ``a, b: …``."""
    said: dict[str, str] = {}
    names: list[str] = []
    for line in (inspect.getdoc(part) or "").splitlines()[1:]:
        begins = re.match(r"([a-z_]+(?:, [a-z_]+)*): (.*)", line)
        if begins:
            names = begins[1].split(", ")
            said.update(dict.fromkeys(names, begins[2]))
        elif not line.startswith("    "):
            names = []
        for name in [] if begins else names:
            said[name] += f" {line.strip()}"
    return said


def options(part: type) -> dict[str, inspect.Parameter]:
    """What a person may set on a part: its keyword-only arguments."""
    signature = inspect.signature(part)
    return {n: p for n, p in signature.parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


def part_options(part: type) -> dict[str, str]:
    """The options of a part that are parts themselves, each with its kind."""
    hints = get_type_hints(part.__init__, include_extras=True)  # type: ignore[misc]
    found: dict[str, str] = {}
    for option in options(part):
        named = [extra.kind for extra in get_args(hints.get(option))[1:] if isinstance(extra, Of)]
        if named or option in KINDS:
            found[option] = named[0] if named else option
    return found


def split(kind: str, spec: Spec) -> tuple[str, dict[str, Any]]:
    """The specification of a part as its name and its options."""
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping):
        raise OptionError(f"{kind}: {spec!r} names no part: write a name, or {{'name': …, option: value}}")
    given = dict(spec)
    name = given.pop("name", None)
    if not isinstance(name, str) or not name:
        raise OptionError(f"{kind}: {dict(spec)!r} names no part: write {{'name': …, option: value}}")
    return name, given


def build(kind: str, spec: Spec, *surroundings: Any) -> Any:
    """The part that ``spec`` describes, made to fit its ``surroundings`` (the positional arguments)."""
    name, given = split(kind, spec)
    cls = find(kind, name)
    return cls(*surroundings, **check(f"{kind} {name!r}", cls, given))


def check(where: str, part: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` options against the part's signature: unknown names and values of a wrong type are refused."""
    known = options(part)
    hints = get_type_hints(part.__init__, include_extras=True)
    checked = {}
    for option, value in given.items():
        if option not in known:
            raise unknown(f"option of {where}:", option, known)
        adapter: TypeAdapter[Any] = TypeAdapter(
            hints.get(option, Any), config=ConfigDict(arbitrary_types_allowed=True)
        )
        try:
            checked[option] = adapter.validate_python(value)
        except ValidationError as error:
            problem = "; or ".join(dict.fromkeys(e["msg"] for e in error.errors()))
            raise OptionError(f"{where}: {option}={value!r} does not do: {problem}") from None
    missing = [n for n, p in known.items() if p.default is inspect.Parameter.empty and n not in checked]
    if missing:
        raise OptionError(f"{where} needs {', '.join(missing)}")
    return checked


def import_file(path: Path) -> None:
    """Register the parts of a Python file from outside the package."""
    name = f"seqloom_code_{path.resolve().with_suffix('').as_posix()}"  # two files may have the same name
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise SeqloomError(f"{path} is not a Python file; --import wants one that registers parts")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SeqloomError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise SeqloomError(f"{path} can't be imported: {type(error).__name__}: {error}") from error


def _import_home(home: str) -> None:
    """Import a package with all its modules, once: their decorators do the rest."""
    if home in _imported:
        return
    package = importlib.import_module(home)
    for module in pkgutil.iter_modules(getattr(package, "__path__", [])):
        importlib.import_module(f"{home}.{module.name}")
    _imported.add(home)


def _import_entry_points() -> None:
    """Import what installed packages offer under the entry point group ``seqloom.parts``, once."""
    if "entry points" not in _imported:
        _imported.add("entry points")
        for point in entry_points(group="seqloom.parts"):
            try:
                point.load()
            except Exception as error:
                raise SeqloomError(f"the parts of {point.value!r}, an installed package, fail: {error}") from error
