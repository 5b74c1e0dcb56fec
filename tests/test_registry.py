"""The registry: lookup, validation of options, and parts from other files and packages."""

from types import SimpleNamespace

import pytest

from seqloom import Batch, build_model, parts, register, registry
from seqloom.errors import ConfigError, SeqloomError, UnknownNameError
from seqloom.nn.attention import Attention

SQUASHED = '''
import torch
from seqloom import register
from seqloom.nn.cells import Cell

@register("cell", "squashed")
class Squashed(Cell):
    """A cell from a user file."""

    def __init__(self, inputs, size, *, slope: float = 1.0):
        super().__init__(inputs, size, blocks=("h",), recurrent=("h",))
        self.slope = slope

    def forward(self, z, state, probe=None, add=None):
        h = torch.tanh(self.slope * (z + state[0] @ self.recurrent.t()))
        return h, (h,)
'''


@pytest.fixture(autouse=True)
def restore_registry(monkeypatch):
    """Remove the parts that a test registers."""
    for kind in registry.KINDS:
        parts(kind)
    monkeypatch.setattr(registry, "_parts", {kind: dict(known) for kind, known in registry._parts.items()})
    monkeypatch.setattr(registry, "_imported", set(registry._imported))


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_kind_has_sorted_documented_parts(kind):
    known = parts(kind)
    assert known
    assert list(known) == sorted(known)
    assert all(registry.summary(part).endswith(".") for part in known.values())
    assert registry.KINDS[kind].summary


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_option_has_type_and_documentation(kind):
    import inspect

    for name, part in parts(kind).items():
        for option, parameter in registry.options(part).items():
            assert parameter.annotation is not parameter.empty, f"{kind} {name}: {option}"
            assert option in (inspect.getdoc(part) or ""), f"{kind} {name} does not document {option}"


@pytest.mark.parametrize(
    ("kind", "spec", "error", "message"),
    [
        ("cell", "lstn", UnknownNameError, "unknown cell 'lstn'; did you mean 'lstm'?"),
        ("cell", "quite other", UnknownNameError, f"there are: {', '.join(parts('cell'))}"),
        ("sell", "lstm", UnknownNameError, "unknown kind of part 'sell'; did you mean 'cell'?"),
        ("cell", {"name": "lstm", "forget_bais": 0.0}, UnknownNameError, "did you mean 'forget_bias'?"),
        ("cell", {"name": "mut1", "layers": 2}, UnknownNameError, "there are none"),
        (
            "cell",
            {"name": "lstm", "forget_bias": "much"},
            ConfigError,
            "cell 'lstm': forget_bias='much' is invalid: it must be a number",
        ),
        ("cell", {"name": "gru", "reset_after": "never"}, ConfigError, "it must be true or false"),
        ("cell", {"forget_bias": 0.0}, ConfigError, "has no part name"),
        ("cell", {"name": ""}, ConfigError, "has no part name"),
        ("cell", {"name": 3}, ConfigError, "has no part name"),
    ],
)
def test_invalid_specification_is_rejected(kind, spec, error, message):
    with pytest.raises(error) as raised:
        registry.build(kind, spec, 2, 3)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("value", "message"), [({"score": "dott"}, "did you mean 'dot'?"), ({"scor": "dot"}, "did you mean 'score'?")]
)
def test_nested_options_are_validated(value, message):
    with pytest.raises(UnknownNameError) as raised:
        build_model("luong", sizes={"source": 5, "target": 5}, hidden_size=4, overrides={"decoder.attention": value})
    assert message in str(raised.value)


@pytest.mark.parametrize("wrong", ["1", 1, "yes"])
def test_booleans_are_parsed_like_pydantic(wrong):
    """Values from the command line and from YAML files can be strings or numbers."""
    assert registry.validate_options("here", Attention, {"key_layers": "2"}) == {"key_layers": 2}
    assert registry.build("cell", {"name": "lstm", "forget_gate": wrong}, 2, 3).blocks[1] == "forget"


def test_option_without_default_is_required():
    class Part:
        """A part."""

        def __init__(self, *, needed: int) -> None:
            self.needed = needed

    with pytest.raises(ConfigError, match="part 'x' requires needed"):
        registry.validate_options("part 'x'", Part, {})


def test_two_classes_can_not_have_same_name():
    with pytest.raises(SeqloomError, match=r"cell 'lstm' is registered twice: as seqloom.*lstm\.LSTM and .*Other"):

        @register("cell", "lstm")
        class Other:
            """Another."""

    assert parts("cell")["lstm"].__module__ == "seqloom.nn.cells.lstm"


def test_class_can_be_registered_again():
    """A notebook cell may be run more than once."""
    for _ in range(2):

        @register("cell", "again")
        class Again:
            """Again."""

    assert parts("cell")["again"] is Again


def test_part_without_docstring_is_rejected():
    with pytest.raises(SeqloomError, match="cell 'silent' needs a docstring"):

        @register("cell", "silent")
        class Silent:
            pass

    assert "silent" not in parts("cell")


def test_docstring_is_not_inherited():
    """Otherwise the cell would be listed with the description of its base class."""
    from seqloom.nn.cells import Cell

    with pytest.raises(SeqloomError, match="needs a docstring"):

        @register("cell", "heir")
        class Heir(Cell):
            pass


def test_unknown_kind_can_not_be_registered():
    with pytest.raises(UnknownNameError, match="did you mean 'score'"):
        register("scores", "mine")


def test_imported_file_registers_parts(tmp_path):
    file = tmp_path / "my_parts.py"
    file.write_text(SQUASHED, encoding="utf-8")
    registry.import_file(file)
    registry.import_file(file)  # importing it twice is allowed
    model = build_model(
        "cho",
        sizes={"source": 6, "target": 6},
        hidden_size=4,
        overrides={"decoder.cell": {"name": "squashed", "slope": 0.5}, "encoder.cell": "squashed"},
    )
    assert type(model.decoder.cells[0]).__name__ == "Squashed"
    assert model.decoder.cells[0].slope == 0.5
    assert model.loss(Batch.from_lists([[3, 4]], [[5, 3, 4]])).total > 0


def test_files_with_same_name_are_separate_modules(tmp_path):
    files = [tmp_path / folder / "parts_twice.py" for folder in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_text(SQUASHED.replace("squashed", "squashed_twice"), encoding="utf-8")
    registry.import_file(files[0])
    with pytest.raises(SeqloomError, match="cell 'squashed_twice' is registered twice"):
        registry.import_file(files[1])


@pytest.mark.parametrize("name", ["nothing.py", "notes.txt", "."])
def test_non_python_file_is_rejected(tmp_path, name):
    (tmp_path / "notes.txt").write_text("no code")
    with pytest.raises(SeqloomError, match="is not a Python file"):
        registry.import_file(tmp_path / name)


def test_file_that_fails_to_import_is_reported(tmp_path):
    file = tmp_path / "broken_parts.py"
    file.write_text("import no_such_module\n")
    with pytest.raises(SeqloomError, match=r"broken_parts\.py.*no_such_module"):
        registry.import_file(file)


def test_entry_points_are_loaded_once(monkeypatch):
    groups = []

    def load():
        @register("cell", "installed")
        class Installed:
            """From another package."""

    def entry_points(*, group):
        groups.append(group)
        return [SimpleNamespace(load=load)]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    registry._imported.discard("entry points")
    assert "installed" in parts("cell")
    assert "installed" in parts("cell")
    assert groups == ["seqloom.parts"]


def test_parts_registered_by_tests_are_removed():
    assert {"squashed", "installed", "again"}.isdisjoint(parts("cell"))
