"""What the documents show is run: Python blocks top to bottom in one namespace, commands without an error."""

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from seqloom import registry
from seqloom.cli import app
from seqloom.cli.files import gathered

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
def test_python_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a run that it keeps stays there
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
            with contextlib.redirect_stdout(io.StringIO()):
                app(args=shlex.split(line)[2:], standalone_mode=False)


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


QUICK = ["--set", "train.updates=2", "--set", "train.evaluate_every=2", "--set", "model.size=8"]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """The files that the pages speak of, tiny, and a configuration."""
    monkeypatch.chdir(tmp_path)
    pairs = [(f"ein {a}{b} {c}.", f"one {c} {b}{a}.") for a in "abc" for b in "xyz" for c in "mnop"]
    for name in ("train", "dev", "test"):
        for side, language in enumerate(("de", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (tmp_path / f"{name}.{language}").write_text(text)
            with pa.output_stream(f"{name}.{language}.zst", compression="zstd") as stream:
                stream.write(text.encode())
    (tmp_path / "words.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    (tmp_path / "pairs.jsonl").write_text("".join(f'{{"question": "{s}", "answer": "{t}"}}\n' for s, t in pairs))
    (tmp_path / "config.yaml").write_text("train: {clip: 2.0}\n")
    (tmp_path / "input").write_text("ein ax m.\n\n")
    return tmp_path


def typed(command: str) -> tuple[list[str], str | None]:
    """A line of shell as arguments, and the file it reads from."""
    words = shlex.split(command.partition("  #")[0])
    if ">" in words:
        words = words[: words.index(">")]
    if "<" in words:
        return words[: words.index("<")], words[words.index("<") + 1]
    return words, None


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=lambda page: page.name)
def test_shell_commands_run(page, workplace, monkeypatch):
    """In order, in a folder with such files; training is cut short."""

    def run(arguments: list[str]) -> None:
        app(args=gathered(arguments), standalone_mode=False)

    for made in ("runs/de-en", "runs/other"):
        run(["train", "--train", "train.{de,en}", "--dev", "dev.{de,en}", "--out", made, *QUICK])
    for line in "".join(blocks(page, "sh")).splitlines():
        if not line.startswith("seqloom "):
            continue
        (_, *arguments), read_from = typed(line)
        if arguments[0] == "train" and "--resume" not in arguments:
            shutil.rmtree(arguments[arguments.index("--out") + 1], ignore_errors=True)
            arguments += QUICK
        if "train.epochs=40" in arguments:
            arguments[arguments.index("train.epochs=40")] = "train.updates=4"
        with open(read_from or os.devnull, "rb") as stream:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream, encoding="utf-8"))
            run(arguments)
