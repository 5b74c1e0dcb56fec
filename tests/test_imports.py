"""Imports between the modules of the package follow the layers of the design; read from the source code."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import seqloom

ROOT = Path(seqloom.__file__).parent

LEAVES = {"cli", "serve", "explore", "lab", "export"}
MAY_IMPORT = {
    "synonyms": set(),
    "errors": {"synonyms"},
    "renames": {"errors", "registry"},
    "files": {"errors"},
    "registry": {"errors"},
    "merge": set(),
    "presets": {"errors"},
    "batch": {"errors"},
    "nn": {"errors", "registry", "batch"},
    "models": {"errors", "merge", "registry", "batch", "presets", "nn"},
    "data": {"errors", "renames", "files", "registry", "batch"},
    "tasks": {"errors", "files", "registry", "batch", "data"},
    "__main__": {"cli"},
}
"""Top-level modules and subpackages, with those that each may import."""

FORBIDDEN = {"decode": {"models", "train", "api", "data"}, "metrics": {"models", "train", "api", "decode"}}


def module_name(path: Path) -> str:
    parts = ("seqloom", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {module_name(path): path for path in ROOT.rglob("*.py")}


def imported(module: str, tree: ast.AST, is_package: bool) -> set[str]:
    """The modules of the package that a syntax tree imports, at any depth."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                up = module.split(".")
                up = up[: len(up) - node.level + is_package]
                origin = ".".join([*up, origin] if origin else up)
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                found.add(inner if inner in modules() else origin)
    return {name for name in found if name.split(".")[0] == "seqloom"}


@cache
def imports() -> dict[str, set[str]]:
    """Module → modules it imports, also inside functions, but not under ``TYPE_CHECKING``."""
    table = {}
    for name, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree.body = [
            node
            for node in tree.body
            if not (isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"))
        ]
        table[name] = imported(name, tree, path.name == "__init__.py")
    return table


def folder(module: str) -> str:
    """The top-level module or subpackage that a module belongs to; "" for the package itself."""
    return [*module.split("."), ""][1]


def edges() -> list[tuple[str, str]]:
    return sorted((a, b) for a, targets in imports().items() for b in targets if folder(a) != folder(b))


def test_imports_are_found_in_the_source():
    assert "seqloom.errors" in imports()["seqloom.registry"]
    assert "seqloom.nn.cells" in imports()["seqloom.nn.recurrent"]
    inner = ast.parse("def f():\n    from seqloom.nn import probe\n    from . import registry")
    assert imported("seqloom.errors", inner, False) == {"seqloom.nn.probe", "seqloom.registry"}


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_modules_import_only_lower_layers(part):
    invalid = [(a, b) for a, b in edges() if folder(a) == part and folder(b) not in MAY_IMPORT[part]]
    assert not invalid


@pytest.mark.parametrize("part", FORBIDDEN)
def test_forbidden_imports(part):
    assert not [(a, b) for a, b in edges() if folder(a) == part and folder(b) in FORBIDDEN[part]]


@pytest.mark.parametrize("leaf", sorted(LEAVES))
def test_only_api_and_cli_import_leaves(leaf):
    allowed = {"cli": {"__main__"}}.get(leaf, {"api", "cli"})
    importers = {a for a, b in edges() if folder(b) == leaf and folder(a) not in allowed}
    assert not importers


@pytest.mark.parametrize("leaf", sorted(LEAVES - {"cli"}))
def test_leaves_are_imported_lazily(leaf):
    """Even in api and cli, only inside functions."""
    for module, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]:
            function.body = [ast.Pass()]
        if folder(module) != leaf:
            assert leaf not in {folder(name) for name in imported(module, tree, path.name == "__init__.py")}, module


def test_every_module_has_a_layer():
    """A new module or subpackage must be added to the tables in this file."""
    above = {"", "config", "decode", "metrics", "predictor", "train", "trace", "api"}
    assert {folder(name) for name in modules()} <= MAY_IMPORT.keys() | LEAVES | above


def test_there_are_no_import_cycles():
    """Neither between modules nor between top-level subpackages."""
    for graph in (imports(), parts_graph()):
        done: set[str] = set()

        def visit(node: str, path: tuple[str, ...], graph=graph, done=done) -> None:
            assert node not in path, " → ".join((*path[path.index(node) :], node))
            if node not in done:
                for target in sorted(graph.get(node, ())):
                    visit(target, (*path, node))
                done.add(node)

        for node in sorted(graph):
            visit(node, ())


def parts_graph() -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for a, b in edges():
        graph.setdefault(folder(a), set()).add(folder(b))
    return graph


@pytest.mark.parametrize(
    "code",
    [
        "import seqloom",
        "import seqloom.cli",
        "import seqloom.registry, seqloom.presets; seqloom.presets.preset_names()",
        "import seqloom.cli; sys.argv = ['seqloom', '--help']; seqloom.cli.main()",
    ],
    ids=["import seqloom", "import the command line", "registry and presets", "--help"],
)
def test_torch_is_not_imported_at_startup(code):
    check = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))"
    ran = subprocess.run([sys.executable, "-c", f"{check}; {code}"], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr.strip()) == (0, "False")


TRAINS = """
import sys
import seqloom

settings = {"train.epochs": 1, "model.hidden_size": 8}
model = seqloom.fit([("a b", "b a")] * 8, out=sys.argv[1], overrides=settings, quiet=True)
model.predict("a b")
print("torch._dynamo" in sys.modules)
"""


def test_training_and_prediction_do_not_import_pytorchs_compiler(tmp_path):
    """The import takes more than a second in every command, and only ``train.compile`` needs it."""
    run = [sys.executable, "-c", TRAINS, str(tmp_path / "run")]
    assert subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip() == "False"
