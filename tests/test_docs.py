"""What the documents show is run: Python blocks top to bottom in one namespace, console commands with exit code 0."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from seqloom import registry

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!http)([^)#]+)\)")


def blocks(page: Path, language: str) -> list[str]:
    return [code for lang, code in BLOCK.findall(page.read_text(encoding="utf-8")) if lang == language]


@pytest.fixture
def own_registry(monkeypatch):
    """Parts that a page registers go when it ends."""
    for kind in registry.KINDS:
        registry.parts(kind)  # imported now, they stay
    monkeypatch.setattr(registry, "_parts", {kind: dict(parts) for kind, parts in registry._parts.items()})


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_runs_and_prints_what_the_page_shows(page):
    printed = io.StringIO()
    namespace = {"__name__": "page"}
    with contextlib.redirect_stdout(printed):
        for code in blocks(page, "python"):
            exec(compile(code, page.name, "exec"), namespace)
    for shown in blocks(page, "text"):
        assert shown in printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page):
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith("$ seqloom "):
            command = [sys.executable, "-m", "seqloom", *shlex.split(line)[2:]]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}\n{done.stderr}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_preset_is_in_the_table():
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    from seqloom import preset_names

    for name in preset_names():
        assert f"| `{name}` |" in page
