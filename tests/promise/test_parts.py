"""A new part is one file: an external part of each kind passes the contract tests and trains a model.

The files in ``parts/`` are copied to a directory outside the package. To test a new kind of part, add a file there.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((Path(__file__).parent / "parts").glob("*.py"))
KIND_TESTS = (
    "nn/test_cells.py",
    "nn/attention/test_scores.py",
    "nn/attention/test_normalizers.py",
    "nn/attention/test_layer.py",
    "nn/test_positions.py",
    "contract/test_embedders.py",
    "contract/test_outputs.py",
    "contract/test_fields.py",
    "contract/test_objectives.py",
    "contract/test_searches.py",
    "contract/test_truncations.py",
    "contract/test_metrics.py",
    "contract/test_tasks.py",
    "models/test_kinds.py",
)
MODEL_TESTS = (
    "contract/test_results.py::test_step_matches_forward",
    "contract/test_results.py::test_results_do_not_depend_on_other_examples_of_the_batch",
    "contract/test_results.py::test_beams_share_the_memory_of_their_sentence",
    "contract/test_results.py::test_step_does_not_modify_its_state",
    "contract/test_probe.py::test_gates_of_every_cell_are_recorded_at_every_step",
)
"""The most informative tests over all combinations of the parts of a model; running all tests takes minutes."""
REQUIRED_KINDS = (
    *("cell", "score", "normalizer", "positional_encoding", "readout", "bridge", "embedder", "output"),
    *("field", "objective", "search", "truncation", "metric", "task", "model"),
)
MODEL_KINDS = ("cell", "score", "normalizer", "positional_encoding", "readout", "bridge")
"""Kinds of parts that the combinations consist of."""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("external")
    for file in FILES:
        (folder / file.name).write_text(file.read_text())
    return [str(folder / file.name) for file in FILES]


@pytest.fixture(scope="module")
def part_names() -> dict[str, list[str]]:
    """Names of the parts in the files, by kind."""
    registered = re.findall(r'@register\("(\w+)", "(\w+)"\)', "".join(file.read_text() for file in FILES))
    return {kind: sorted(name for of, name in registered if of == kind) for kind, _ in registered}


def seqloom(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seqloom", *arguments]
    ran = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    return ran


@pytest.fixture(scope="module")
def passed(files, part_names) -> list[str]:
    """Ids of the tests of these parts that pass; none may fail."""
    parts = [word for file in files for word in ("--parts", file)]
    names = " or ".join(name for some in part_names.values() for name in some)
    tests = [f"tests/{test}" for test in (*KIND_TESTS, *MODEL_TESTS)]
    command = [sys.executable, "-m", "pytest", "-rp", "-p", "no:cacheprovider", *parts, "-k", names, *tests]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stdout[-5000:]
    return [line.removeprefix("PASSED ") for line in ran.stdout.splitlines() if line.startswith("PASSED ")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_part_is_one_file_of_at_most_60_lines(file):
    assert len(file.read_text().splitlines()) <= 60


def test_every_kind_has_an_external_part(files, part_names):
    listed = json.loads(seqloom("parts", "--json", *imports(files)).stdout)
    assert all(name in listed[kind] for kind, names in part_names.items() for name in names)
    for kind in REQUIRED_KINDS:
        assert part_names[kind], kind


def test_external_parts_pass_the_tests_of_their_kind(passed, part_names):
    for kind, names in part_names.items():
        for name in names:
            tests = {test.partition("[")[0] for test in passed if name in test.partition("[")[2]}
            assert len(tests) >= 4, f"{kind} {name}: {tests}"


def test_external_parts_pass_the_tests_of_models(passed, part_names):
    for name in (name for kind in MODEL_KINDS for name in part_names[kind]):
        for test in MODEL_TESTS[: -1 if name not in part_names["cell"] else None]:
            assert any(id_.startswith(f"tests/{test}[") and name in id_ for id_ in passed), (name, test)


@pytest.fixture(scope="module")
def run(files, part_names, tmp_path_factory) -> Path:
    """A short training run, through the command line, with an external part of every kind in a model."""
    folder = tmp_path_factory.mktemp("run")
    write_pairs(files, folder)
    parts = {
        "model.encoder.cell": part_names["cell"][0],
        "model.decoder.cell": part_names["cell"][1],
        "model.decoder.attention.score": part_names["score"][0],
        "model.decoder.attention.normalizer": part_names["normalizer"][0],
        "model.decoder.readout": part_names["readout"][0],
        "model.bridge": part_names["bridge"][0],
        "model.source_embedder": "outside_bigrams",
        "model.output": "outside_softmaxes",
        "train.objective": part_names["objective"][0],
        "train.validation_metric": part_names["metric"][0],
        "search": part_names["search"][0],
    }
    rest = {"train.updates": 150, "train.evaluate_every": 50, "train.batch_sentences": 32, "model.hidden_size": 32}
    rest |= {"train.optimizer.lr": 0.01, "data.source_tokenizer": "whitespace", "data.target_tokenizer": "whitespace"}
    layers = {f"model.decoder.attention.{side}_layers": 1 for side in ("key", "query")}
    settings = [f"{path}={value}" for path, value in {**parts, **rest, **layers}.items()]
    seqloom(
        *("train", "--preset", "bahdanau", "--train", str(folder / "train.tsv"), "--dev", str(folder / "dev.tsv")),
        *("--out", str(folder / "run")),
        *(word for setting in settings for word in ("--set", setting)),
        *imports(files),
    )
    return folder


def imports(files: list[str]) -> list[str]:
    return [word for file in files for word in ("--import", file)]


def write_pairs(files: list[str], folder: Path) -> None:
    """Write the pairs of the external task to files."""
    code = f"""
from pathlib import Path
from seqloom.registry import build, import_file
import_file(Path({next(f for f in files if f.endswith("/task.py"))!r}))
task = build("task", {{"name": "sorting", "train": 2000, "dev": 50, "test": 50}})
for part in ("train", "dev", "test"):
    lines = [source + "\\t" + target + "\\n" for source, target in getattr(task, part)]
    (Path({str(folder)!r}) / f"{{part}}.tsv").write_text("".join(lines))
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_model_of_external_parts_learns(run, files, part_names):
    (metric,) = part_names["metric"]
    records = [json.loads(line) for line in (run / "run" / "metrics.jsonl").read_text().splitlines()]
    values = [record["dev"][metric] for record in records if "dev" in record]
    assert values[-1] > 50
    shown = seqloom(
        "evaluate", str(run / "run"), "--data", str(run / "test.tsv"), "--metric", metric, *imports(files)
    )
    assert metric in shown.stdout


def test_external_search_and_truncation(run, files, part_names):
    (truncation,) = part_names["truncation"]
    for options in ([], ["--search", "sample", "--samples", "3", "--truncate", f"[{{name: {truncation}}}, top_k]"]):
        ran = seqloom("predict", str(run / "run"), *options, *imports(files), stdin="c b a\nf a\n")
        assert len(ran.stdout.splitlines()) == (6 if options else 2)


def test_external_model_learns_and_is_used(run, files, part_names):
    (model,) = part_names["model"]
    settings = {
        "train.updates": 200,
        "train.batch_sentences": 32,
        "model.hidden_size": 48,
        "train.optimizer.lr": 0.01,
    }
    settings |= {"model.type": model, "data.source_tokenizer": "whitespace", "data.target_tokenizer": "whitespace"}
    folder = run / "external_model"
    seqloom(
        *("train", "--train", str(run / "train.tsv"), "--dev", str(run / "dev.tsv"), "--out", str(folder)),
        *(word for path, value in settings.items() for word in ("--set", f"{path}={value}")),
        *imports(files),
    )
    pairs = [line.split("\t") for line in (run / "test.tsv").read_text().splitlines()]
    sources = "".join(source + "\n" for source, _ in pairs)
    for search in ("beam", "greedy"):
        outputs = seqloom("predict", str(folder), "--search", search, *imports(files), stdin=sources).stdout
        correct = sum(output == target for output, (_, target) in zip(outputs.splitlines(), pairs, strict=True))
        assert correct > len(pairs) / 2
    on_test = ("--data", str(run / "test.tsv"), *imports(files))
    assert len(seqloom("score", str(folder), *on_test).stdout.splitlines()) == len(pairs)
    value = json.loads(seqloom("evaluate", str(folder), "--metric", "exact_match", "--json", *on_test).stdout)
    assert value["metrics"]["exact_match"]["value"] == pytest.approx(100 * correct / len(pairs), abs=5)
