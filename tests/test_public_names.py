"""The public names: sorted, complete, and from where they say."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import seqloom


def for_type_checkers() -> dict[str, str]:
    """Name → module, from the imports that only a type checker reads."""
    tree = ast.parse(Path(seqloom.__file__).read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    return {a.asname or a.name: n.module for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}


def test_names_are_sorted_and_single():
    assert seqloom.__all__ == sorted(set(seqloom.__all__))


def test_the_three_tables_agree():
    assert for_type_checkers() == seqloom._HOMES
    assert sorted(seqloom._HOMES) == seqloom.__all__


def test_dir_shows_the_public_names():
    assert dir(seqloom) == sorted([*seqloom.__all__, "__version__"])


@pytest.mark.parametrize("name", seqloom.__all__)
def test_a_name_comes_from_where_it_says(name):
    thing = getattr(seqloom, name)
    home = seqloom._HOMES[name]
    assert thing is getattr(import_module(home), name)
    assert thing.__name__ == name
    assert thing.__module__ == home or thing.__module__.startswith(f"{home}.")
    assert thing.__doc__


def test_all_of_them_at_once():
    names: dict = {}
    exec("from seqloom import *", names)
    assert set(seqloom.__all__) <= names.keys()


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'seqloom' has no attribute 'modle'"):
        _ = seqloom.modle


PACKAGES = sorted(
    ".".join(("seqloom", *path.relative_to(Path(seqloom.__file__).parent).parent.parts))
    for path in Path(seqloom.__file__).parent.rglob("*/__init__.py")
    if "__all__" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_names_what_it_shows(package):
    """Sorted, each once, and all that its ``__init__`` imports from its own modules."""
    module = import_module(package)
    assert module.__all__ == sorted(set(module.__all__))
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package)
        for alias in node.names
    }
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    public = {name for name in imported | defined if not name.startswith("_")}
    assert public <= set(module.__all__), "what is shown and not named"
    assert all(hasattr(module, name) for name in module.__all__)
