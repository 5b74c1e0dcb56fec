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
