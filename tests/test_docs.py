"""Documentation: its Python blocks and commands run, its links resolve, and it covers all names and search terms.

The Python blocks of a page run from top to bottom in one namespace.
"""

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
from seqloom.cli.files import expand_file_args

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    return [code for lang, code in BLOCK.findall(page.read_text(encoding="utf-8")) if lang == language]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def own_registry(monkeypatch):
    """Undo the registration of parts when a page ends."""
    for kind in registry.KINDS:
        registry.parts(kind)  # import all built-in parts first, so that they stay registered
    monkeypatch.setattr(registry, "_parts", {kind: dict(parts) for kind, parts in registry._parts.items()})


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_python_blocks_run_and_print_the_output_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for the runs that it saves
    printed = io.StringIO()
    namespace = {"__name__": "page"}
    with contextlib.redirect_stdout(printed):
        for code in blocks(page, "python"):
            exec(compile(code, page.name, "exec"), namespace)
    for shown in blocks(page, "text"):
        assert shown in printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_console_commands_run(page):
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith("$ seqloom "):
            with contextlib.redirect_stdout(io.StringIO()):
                app(args=shlex.split(line)[2:], standalone_mode=False)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them: lower case, without punctuation, spaces as hyphens."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    made: dict[str, int] = {}
    found = set()
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        repeated = made.get(anchor, 0)
        made[anchor] = repeated + 1
        found.add(f"{anchor}-{repeated}" if repeated else anchor)
    return found


def test_anchors_follow_the_rules_of_github(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Self-attention, `a_b` …\n\n```sh\n# no heading\n```\n\n## [Link](x.md) & more\n\n## Link  more\n"
    )
    assert anchors(page) == {"self-attention-a_b-", "link--more", "link--more-1"}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=page_id)
def test_links_and_anchors_resolve(page):
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {link}: the file does not exist"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}: the heading does not exist"


@pytest.mark.parametrize("name", ["architecture.md", "models.md", "training.md"])
def test_files_named_in_the_text_exist(name):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for path in re.findall(r"`([\w/-]+\.(?:py|yaml))`", text):
        is_placeholder = path.rsplit("/")[-1].startswith(("x.", "my_parts.", "config."))
        assert is_placeholder or (ROOT / path).exists() or (ROOT / "src" / "seqloom" / path).exists(), path


def test_every_file_of_a_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {link.partition("#")[0] for link in LINK.findall(index)}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= linked


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_part_is_in_the_glossary(kind):
    """Its name and its class are in one row."""
    rows = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    for name, part in registry.parts(kind).items():
        if part.__module__.startswith("seqloom."):
            assert any(f"`{name}`" in row and f"`{part.__name__}`" in row for row in rows), f"{kind} {name}"


TERMS = (
    "validation set",
    "inference",
    "prediction",
    "hypothesis",
    "decoding strategy",
    "constrained decoding",
    "lexical constraints",
    "beam size",
    "length penalty",
    "nucleus",
    "top-p",
    "repetition penalty",
    "diverse beam search",
    "stochastic beam search",
    "minimum Bayes risk",
    "MBR",
    "BOS",
    "EOS",
    "UNK",
    "special tokens",
    "out-of-vocabulary",
    "OOV",
    "vocabulary size",
    "SentencePiece",
    "joint vocabular",
    "shared) vocabulary",
    "batch size",
    "bucketing",
    "padding mask",
    "preprocess",
    "binarize",
    "learning rate",
    "LR schedule",
    "learning rate schedule",
    "gradient clipping",
    "gradient accumulation",
    "exponential moving average",
    "EMA",
    "checkpoint averaging",
    "early stopping",
    "teacher forcing ratio",
    "exposure bias",
    "label smoothing",
    "weight tying",
    "initialization",
    "reproducible",
    "deterministic",
    "override",
    "hidden size",
    "hidden state",
    "initial state",
    "final state",
    "attention weights",
    "context vector",
    "hard attention",
    "self-attention",
    "cross-attention",
    "multi-head attention",
    "positional encoding",
    "feed-forward network",
    "pre-norm",
    "post-norm",
    "KV cache",
    "incremental decoding",
    "fused kernel",
    "forward hook",
    "activations",
    "intervention",
    "ablation",
    "patching",
    "quantization",
    "throughput",
    "latency",
    "grapheme-to-phoneme",
    "neural machine translation",
    "WER",
    "PER",
    "CER",
    "confidence interval",
    "statistical significance",
    "p-value",
    "low-resource",
)
"""Terms of the field that people search the documentation for."""


@pytest.mark.parametrize("term", TERMS)
def test_search_terms_are_found(term):
    text = " ".join(" ".join(page.read_text(encoding="utf-8") for page in PAGES).split())
    assert re.search(rf"(?<!\w){re.escape(term)}", text, re.IGNORECASE)


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_preset_is_in_the_tables_of_presets_and_deviations():
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    from seqloom import preset_names

    for name in preset_names():
        assert page.count(f"| `{name}` |") == 2


QUICK = ["--set", "train.updates=2", "--set", "train.evaluate_every=2", "--set", "model.hidden_size=8"]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A directory with tiny versions of the files in the examples, and a configuration."""
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
    (tmp_path / "config.yaml").write_text("train: {clip_grad_norm: 2.0}\n")
    (tmp_path / "input").write_text("ein ax m.\n\n")
    return tmp_path


def parse_command(command: str) -> tuple[list[str], str | None]:
    """The arguments of a shell command, and the file that standard input is redirected from."""
    words = shlex.split(command.partition("  #")[0])
    if ">" in words:
        words = words[: words.index(">")]
    if "<" in words:
        return words[: words.index("<")], words[words.index("<") + 1]
    return words, None


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=page_id)
def test_shell_commands_run(page, workplace, monkeypatch):
    """In order, in a directory with tiny files; training stops after a few updates."""

    def run(arguments: list[str]) -> None:
        app(args=expand_file_args(arguments), standalone_mode=False)

    for made in ("runs/de-en", "runs/other"):
        run(["train", "--train", "train.{de,en}", "--dev", "dev.{de,en}", "--out", made, *QUICK])
    for line in "".join(blocks(page, "sh")).splitlines():
        if not line.startswith("seqloom "):
            continue
        (_, *arguments), read_from = parse_command(line)
        if arguments[0] == "train" and "--resume" not in arguments:
            shutil.rmtree(arguments[arguments.index("--out") + 1], ignore_errors=True)
            arguments += QUICK
        if "train.epochs=40" in arguments:
            arguments[arguments.index("train.epochs=40")] = "train.updates=4"
        with open(read_from or os.devnull, "rb") as stream:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream, encoding="utf-8"))
            run(arguments)
