"""The public names of the packages: sorted, complete, and defined in the listed modules."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import seqloom


def type_checking_imports() -> dict[str, str]:
    """Name → module, from the imports under ``TYPE_CHECKING``."""
    tree = ast.parse(Path(seqloom.__file__).read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    return {a.asname or a.name: n.module for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}


def test_all_is_sorted_without_duplicates():
    assert seqloom.__all__ == sorted(set(seqloom.__all__))


def test_lazy_imports_match_all_and_type_checking_imports():
    assert type_checking_imports() == seqloom._MODULES
    assert sorted(seqloom._MODULES) == seqloom.__all__


def test_dir_lists_public_names():
    assert dir(seqloom) == sorted([*seqloom.__all__, "__version__"])


@pytest.mark.parametrize("name", seqloom.__all__)
def test_name_is_defined_in_its_listed_module(name):
    value = getattr(seqloom, name)
    module = seqloom._MODULES[name]
    assert value is getattr(import_module(module), name)
    assert value.__name__ == name
    assert value.__module__ == module or value.__module__.startswith(f"{module}.")
    assert value.__doc__


def test_star_import():
    names: dict = {}
    exec("from seqloom import *", names)
    assert set(seqloom.__all__) <= names.keys()


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'seqloom' has no attribute 'modle'"):
        _ = seqloom.modle


PACKAGES = sorted(
    ".".join(("seqloom", *path.relative_to(Path(seqloom.__file__).parent).parent.parts))
    for path in Path(seqloom.__file__).parent.rglob("*/__init__.py")
    if "__all__" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_all_is_sorted_and_complete(package):
    """It has all names that the ``__init__`` defines or imports from modules of the package."""
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
    assert public <= set(module.__all__), "public names missing in __all__"
    assert all(hasattr(module, name) for name in module.__all__)
