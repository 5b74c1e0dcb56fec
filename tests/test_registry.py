"""The registry: what it knows, what it refuses and how it says so, and parts from outside."""

from types import SimpleNamespace

import pytest

from seqloom import Batch, build_model, parts, register, registry
from seqloom.errors import OptionError, SeqloomError, UnknownNameError
from seqloom.nn.attention import Attention

SQUASHED = '''
import torch
from seqloom import register
from seqloom.nn.cells import Cell

@register("cell", "squashed")
class Squashed(Cell):
    """A cell from outside."""

    def __init__(self, inputs, size, *, slope: float = 1.0):
        super().__init__(inputs, size, blocks=("h",), recurrent=("h",))
        self.slope = slope

    def forward(self, z, state, probe=None, add=None):
        h = torch.tanh(self.slope * (z + state[0] @ self.recurrent.t()))
        return h, (h,)
'''


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch):
    """What a test registers is forgotten after it."""
    for kind in registry.KINDS:
        parts(kind)
    monkeypatch.setattr(registry, "_parts", {kind: dict(known) for kind, known in registry._parts.items()})
    monkeypatch.setattr(registry, "_imported", set(registry._imported))


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_kind_has_parts_sorted_and_described(kind):
    known = parts(kind)
    assert known
    assert list(known) == sorted(known)
    assert all(registry.meaning(part).endswith(".") for part in known.values())
    assert registry.KINDS[kind].meaning


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_option_has_a_type_and_a_word_in_the_docstring(kind):
    import inspect

    for name, part in parts(kind).items():
        for option, parameter in registry.options(part).items():
            assert parameter.annotation is not parameter.empty, f"{kind} {name}: {option}"
            assert option in (inspect.getdoc(part) or ""), f"{kind} {name} does not explain {option}"


@pytest.mark.parametrize(
    ("kind", "spec", "error", "says"),
    [
        ("cell", "lstn", UnknownNameError, "unknown cell 'lstn'; did you mean 'lstm'?"),
        ("cell", "quite other", UnknownNameError, f"there are: {', '.join(parts('cell'))}"),
        ("sell", "lstm", UnknownNameError, "unknown kind of part 'sell'; did you mean 'cell'?"),
        ("cell", {"name": "lstm", "forget_bais": 0.0}, UnknownNameError, "did you mean 'forget_bias'?"),
        ("cell", {"name": "mut1", "layers": 2}, UnknownNameError, "there are none"),
        ("cell", {"name": "lstm", "forget_bias": "much"}, OptionError, "cell 'lstm': forget_bias='much' does not do"),
        ("cell", {"name": "gru", "reset": "never"}, OptionError, "'before' or 'after'"),
        ("cell", {"forget_bias": 0.0}, OptionError, "names no part"),
        ("cell", {"name": ""}, OptionError, "names no part"),
        ("cell", {"name": 3}, OptionError, "names no part"),
    ],
)
def test_a_wrong_specification_is_refused(kind, spec, error, says):
    with pytest.raises(error) as raised:
        registry.build(kind, spec, 2, 3)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("value", "says"), [({"score": "dott"}, "did you mean 'dot'?"), ({"scor": "dot"}, "did you mean 'score'?")]
)
def test_options_deep_inside_are_checked_too(value, says):
    with pytest.raises(UnknownNameError) as raised:
        build_model("luong", sizes={"source": 5, "target": 5}, size=4, settings={"decoder.attention": value})
    assert says in str(raised.value)


@pytest.mark.parametrize("wrong", ["1", 1, "yes"])
def test_a_yes_or_no_is_taken_as_pydantic_takes_it(wrong):
    """A command line and a YAML file write values as they can."""
    assert registry.check("here", Attention, {"key_layers": "2"}) == {"key_layers": 2}
    assert registry.build("cell", {"name": "lstm", "forget_gate": wrong}, 2, 3).blocks[1] == "forget"


def test_an_option_without_a_default_must_be_given():
    class Part:
        """A part."""

        def __init__(self, *, needed: int) -> None:
            self.needed = needed

    with pytest.raises(OptionError, match="part 'x' needs needed"):
        registry.check("part 'x'", Part, {})


def test_two_classes_can_not_have_one_name():
    with pytest.raises(SeqloomError, match=r"two parts want to be cell 'lstm': seqloom.*lstm\.LSTM and .*Other"):

        @register("cell", "lstm")
        class Other:
            """Another."""

    assert parts("cell")["lstm"].__module__ == "seqloom.nn.cells.lstm"


def test_a_class_may_be_registered_again():
    """A notebook's cell is run more than once."""
    for _ in range(2):

        @register("cell", "again")
        class Again:
            """Again."""

    assert parts("cell")["again"] is Again


def test_a_part_without_a_docstring_is_refused():
    with pytest.raises(SeqloomError, match="cell 'silent' needs a docstring"):

        @register("cell", "silent")
        class Silent:
            pass

    assert "silent" not in parts("cell")


def test_a_docstring_is_not_inherited():
    """A cell's first line would else be that of the class Cell, in every list."""
    from seqloom.nn.cells import Cell

    with pytest.raises(SeqloomError, match="needs a docstring"):

        @register("cell", "heir")
        class Heir(Cell):
            pass


def test_an_unknown_kind_can_not_be_registered():
    with pytest.raises(UnknownNameError, match="did you mean 'score'"):
        register("scores", "mine")


def test_a_file_from_outside_is_usable_by_name(tmp_path):
    file = tmp_path / "my_parts.py"
    file.write_text(SQUASHED, encoding="utf-8")
    registry.import_file(file)
    registry.import_file(file)  # a second time does no harm
    model = build_model(
        "cho",
        sizes={"source": 6, "target": 6},
        size=4,
        settings={"decoder.cell": {"name": "squashed", "slope": 0.5}, "encoder.cell": "squashed"},
    )
    assert type(model.decoder.cells[0]).__name__ == "Squashed"
    assert model.decoder.cells[0].slope == 0.5
    assert model.loss(Batch.of([[3, 4]], [[5, 3, 4]])).total > 0


def test_two_files_of_one_name_do_not_take_each_others_place(tmp_path):
    files = [tmp_path / folder / "parts_twice.py" for folder in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_text(SQUASHED.replace("squashed", "squashed_twice"), encoding="utf-8")
    registry.import_file(files[0])
    with pytest.raises(SeqloomError, match="two parts want to be cell 'squashed_twice'"):
        registry.import_file(files[1])


@pytest.mark.parametrize("name", ["nothing.py", "notes.txt", "."])
def test_what_is_no_python_file_is_refused(tmp_path, name):
    (tmp_path / "notes.txt").write_text("no code")
    with pytest.raises(SeqloomError, match="is not a Python file"):
        registry.import_file(tmp_path / name)


def test_a_file_that_fails_leaves_nothing_and_says_where(tmp_path):
    file = tmp_path / "broken_parts.py"
    file.write_text("import no_such_module\n")
    with pytest.raises(SeqloomError, match=r"broken_parts\.py.*no_such_module"):
        registry.import_file(file)


def test_installed_packages_are_asked_for_parts_once(monkeypatch):
    asked = []

    def load():
        @register("cell", "installed")
        class Installed:
            """From another package."""

    def entry_points(*, group):
        asked.append(group)
        return [SimpleNamespace(load=load)]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    registry._imported.discard("entry points")
    assert "installed" in parts("cell")
    assert "installed" in parts("cell")
    assert asked == ["seqloom.parts"]


def test_what_tests_register_does_not_stay():
    assert {"squashed", "installed", "again"}.isdisjoint(parts("cell"))
