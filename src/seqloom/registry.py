"""Registry of parts: lookup by name, and validation of their options.

A part is a class registered with ``@register(kind, name)``. Positional arguments of its constructor are set by the
code that builds it, such as input sizes. Keyword-only arguments are the options that users can set, so the signature
is the list of options. A specification is the name of a part, or a mapping with options: ``"lstm"`` or
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

from seqloom.errors import ConfigError, SeqloomError, requirement, unknown

Spec = str | Mapping[str, Any]
Fraction = Annotated[float, Field(ge=0, le=1)]
T = TypeVar("T")


@dataclass(frozen=True)
class Of:
    """The kind of a part, if the option has another name: ``Annotated[Spec, Of("embedder")]``."""

    kind: str


@dataclass(frozen=True)
class Kind:
    """A kind of part: a one-line description, and the package or module whose import registers its parts."""

    summary: str
    home: str


KINDS: dict[str, Kind] = {
    "cell": Kind("RNN cell, one time step of a recurrent layer", "seqloom.nn.cells"),
    "score": Kind("attention score function, which compares a query with a key", "seqloom.nn.attention"),
    "normalizer": Kind("turns attention scores into attention weights", "seqloom.nn.attention"),
    "positional_encoding": Kind("positional encoding of a Transformer", "seqloom.nn.positions"),
    "embedder": Kind("turns input, such as token indices, into vectors", "seqloom.nn.embedders"),
    "output": Kind("output layer and its loss", "seqloom.nn.outputs"),
    "model": Kind("model architecture", "seqloom.models"),
    "encoder": Kind("turns the source into contextual vectors", "seqloom.models.encoders"),
    "bridge": Kind("initializes the decoder state from the encoder", "seqloom.models.bridges"),
    "decoder": Kind("generates the target step by step", "seqloom.models.decoders"),
    "readout": Kind("combines decoder state and context vector into output features", "seqloom.models.readouts"),
    "reader": Kind("file format of examples", "seqloom.data.readers"),
    "field": Kind("type of a data column, such as text or labels", "seqloom.data.fields"),
    "batcher": Kind("batching strategy of the training data", "seqloom.data.batchers"),
    "tokenizer": Kind("splits text into tokens", "seqloom.data.tokenizers"),
    "task": Kind("generated or bundled data set", "seqloom.tasks"),
    "optimizer": Kind("updates the weights from their gradients", "seqloom.train.optimizers"),
    "schedule": Kind("learning rate schedule", "seqloom.train.schedules"),
    "objective": Kind("training objective, which computes the loss of a batch", "seqloom.train.objectives"),
    "scheduled_sampling": Kind("decay of the teacher forcing ratio", "seqloom.train.sampling"),
    "search": Kind("decoding strategy", "seqloom.decode"),
    "truncation": Kind("truncation of the distribution in sampling, such as top-k", "seqloom.decode.truncation"),
    "metric": Kind("evaluation metric", "seqloom.metrics"),
}

_parts: dict[str, dict[str, type]] = {kind: {} for kind in KINDS}
_imported: set[str] = set()


def register(kind: str, name: str) -> Callable[[type[T]], type[T]]:
    """Class decorator that registers a class as the part ``name`` of ``kind``."""
    if kind not in KINDS:
        raise unknown("kind of part", kind, KINDS)

    def add(cls: type[T]) -> type[T]:
        registered = _parts[kind].get(name)
        if registered is not None and _full_name(registered) != _full_name(cls):
            raise SeqloomError(
                f"{kind} {name!r} is registered twice: as {_full_name(registered)} and {_full_name(cls)}; rename one"
            )
        if not cls.__doc__:
            raise SeqloomError(f"{kind} {name!r} needs a docstring: its first line is shown by seqloom parts")
        _parts[kind][name] = cls
        return cls

    return add


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def parts(kind: str) -> dict[str, type]:
    """All parts of a kind, as a mapping from name to class, sorted by name."""
    if kind not in KINDS:
        raise unknown("kind of part", kind, KINDS)
    _import_home(KINDS[kind].home)
    _import_entry_points()
    return dict(sorted(_parts[kind].items()))


def get_class(kind: str, name: str) -> type:
    """The class of the part ``name``."""
    known = parts(kind)
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def summary(part: type) -> str:
    """The first line of a part's docstring."""
    return (inspect.getdoc(part) or "").splitlines()[0]


def option_docs(part: type) -> dict[str, str]:
    """The documentation of each option, from the paragraphs ``name: …`` or ``a, b: …`` of the docstring."""
    docs: dict[str, str] = {}
    names: list[str] = []
    for line in (inspect.getdoc(part) or "").splitlines()[1:]:
        start = re.match(r"([a-z_]+(?:, [a-z_]+)*): (.*)", line)
        if start:
            names = start[1].split(", ")
            docs.update(dict.fromkeys(names, start[2]))
        elif not line.startswith("    "):
            names = []
        for name in [] if start else names:
            docs[name] += f" {line.strip()}"
    return docs


def options(part: type) -> dict[str, inspect.Parameter]:
    """The options of a part: its keyword-only arguments."""
    signature = inspect.signature(part)
    return {n: p for n, p in signature.parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


def part_options(part: type) -> dict[str, str]:
    """The options of a part that are parts themselves, as a mapping from option to kind."""
    hints = get_type_hints(part.__init__, include_extras=True)  # type: ignore[misc]
    found: dict[str, str] = {}
    for option in options(part):
        annotated = [extra.kind for extra in get_args(hints.get(option))[1:] if isinstance(extra, Of)]
        if annotated or option in KINDS:
            found[option] = annotated[0] if annotated else option
    return found


def parse_spec(kind: str, spec: Spec) -> tuple[str, dict[str, Any]]:
    """Split a specification into the name of the part and its options."""
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping):
        raise ConfigError(f"{kind}: {spec!r} is not a part: write its name, or {{'name': …, option: value}}")
    given = dict(spec)
    name = given.pop("name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{kind}: {dict(spec)!r} has no part name: write {{'name': …, option: value}}")
    return name, given


def build(kind: str, spec: Spec, *args: Any) -> Any:
    """Build the part that ``spec`` describes; ``args`` are its positional arguments, such as input sizes."""
    name, given = parse_spec(kind, spec)
    cls = get_class(kind, name)
    return cls(*args, **validate_options(f"{kind} {name!r}", cls, given))


def validate_options(where: str, part: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Check ``given`` options against the signature of a part, and convert their values.

    Raises an error for unknown or missing options and for values of the wrong type.
    """
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
            required = requirement(e["msg"] for e in error.errors())
            raise ConfigError(f"{where}: {option}={value!r} is invalid: {required}") from None
    missing = [n for n, p in known.items() if p.default is inspect.Parameter.empty and n not in checked]
    if missing:
        raise ConfigError(f"{where} requires {', '.join(missing)}")
    return checked


def import_file(path: Path) -> None:
    """Import a Python file that registers parts."""
    # The module is named by its whole path, because two files may have the same name.
    name = f"seqloom_code_{path.resolve().with_suffix('').as_posix()}"
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise SeqloomError(f"{path} is not a Python file: --import needs one that registers parts")
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
    """Import a package and all its modules, once, so that their decorators register the parts."""
    if home in _imported:
        return
    package = importlib.import_module(home)
    for module in pkgutil.iter_modules(getattr(package, "__path__", [])):
        importlib.import_module(f"{home}.{module.name}")
    _imported.add(home)


def _import_entry_points() -> None:
    """Import the entry points ``seqloom.parts`` of installed packages, once."""
    if "entry points" not in _imported:
        _imported.add("entry points")
        for point in entry_points(group="seqloom.parts"):
            try:
                point.load()
            except Exception as error:
                raise SeqloomError(
                    f"can't import the parts of the installed package {point.value!r}: {error}"
                ) from error
