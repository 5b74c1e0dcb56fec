"""A new part is one file: one of each kind, from outside, passes the contract tests and trains a model.

The files in ``parts/`` are copied to where the package knows nothing of them. A new kind joins by a file there.
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
    "nn/attention/test_normalisers.py",
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
    "contract/test_results.py::test_steps_are_forward",
    "contract/test_results.py::test_an_example_alone_is_what_it_is_in_a_batch",
    "contract/test_results.py::test_beams_share_the_memory_of_their_sentence",
    "contract/test_results.py::test_a_step_changes_no_state_it_was_given",
    "contract/test_probe.py::test_the_gates_of_every_cell_are_heard_at_every_step",
)
"""Of the tests over all combinations of a model's parts, those that say most; all of them take minutes."""
WITH_A_PROOF = (
    *("cell", "score", "normaliser", "positions", "readout", "bridge", "embedder", "output"),
    *("field", "objective", "search", "truncation", "metric", "task", "model"),
)
IN_A_MODEL = ("cell", "score", "normaliser", "positions", "readout", "bridge")
"""Kinds that the combinations are made of."""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("outside")
    for file in FILES:
        (folder / file.name).write_text(file.read_text())
    return [str(folder / file.name) for file in FILES]


@pytest.fixture(scope="module")
def added() -> dict[str, list[str]]:
    """The names of the parts in the files, by kind."""
    found = re.findall(r'@register\("(\w+)", "(\w+)"\)', "".join(file.read_text() for file in FILES))
    return {kind: sorted(name for of, name in found if of == kind) for kind, _ in found}


def seqloom(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seqloom", *arguments]
    ran = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    return ran


@pytest.fixture(scope="module")
def passed(files, added) -> list[str]:
    """The tests of these parts that pass, by their ids; none may fail."""
    parts = [word for file in files for word in ("--parts", file)]
    names = " or ".join(name for some in added.values() for name in some)
    tests = [f"tests/{test}" for test in (*KIND_TESTS, *MODEL_TESTS)]
    command = [sys.executable, "-m", "pytest", "-rp", "-p", "no:cacheprovider", *parts, "-k", names, *tests]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stdout[-5000:]
    return [line.removeprefix("PASSED ") for line in ran.stdout.splitlines() if line.startswith("PASSED ")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_part_is_one_file_of_at_most_60_lines(file):
    assert len(file.read_text().splitlines()) <= 60


def test_there_is_one_of_each_kind(files, added):
    listed = json.loads(seqloom("parts", "--json", *imports(files)).stdout)
    assert all(name in listed[kind] for kind, names in added.items() for name in names)
    for kind in WITH_A_PROOF:
        assert added[kind], kind


def test_each_passes_the_tests_of_its_kind(passed, added):
    for kind, names in added.items():
        for name in names:
            about = {test.partition("[")[0] for test in passed if name in test.partition("[")[2]}
            assert len(about) >= 4, f"{kind} {name}: {about}"


def test_models_made_of_them_do_what_all_models_do(passed, added):
    for name in (name for kind in IN_A_MODEL for name in added[kind]):
        for test in MODEL_TESTS[: -1 if name not in added["cell"] else None]:
            assert any(id_.startswith(f"tests/{test}[") and name in id_ for id_ in passed), (name, test)


@pytest.fixture(scope="module")
def run(files, added, tmp_path_factory) -> Path:
    """A short training in which all parts of a model take part, through the command line."""
    folder = tmp_path_factory.mktemp("run")
    write_pairs(files, folder)
    parts = {
        "model.encoder.cell": added["cell"][0],
        "model.decoder.cell": added["cell"][1],
        "model.decoder.attention.score": added["score"][0],
        "model.decoder.attention.normaliser": added["normaliser"][0],
        "model.decoder.readout": added["readout"][0],
        "model.bridge": added["bridge"][0],
        "model.source": "outside_bigrams",
        "model.output": "outside_softmaxes",
        "train.objective": added["objective"][0],
        "train.metric": added["metric"][0],
        "search": added["search"][0],
    }
    rest = {"train.updates": 150, "train.evaluate_every": 50, "train.batch_sentences": 32, "model.size": 32}
    rest |= {"train.optimiser.rate": 0.01, "data.source": "symbols", "data.target": "symbols"}
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
    """The pairs of the task, as files to train on."""
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


def test_a_model_made_of_them_learns(run, files, added):
    (metric,) = added["metric"]
    records = [json.loads(line) for line in (run / "run" / "metrics.jsonl").read_text().splitlines()]
    values = [record["dev"][metric] for record in records if "dev" in record]
    assert values[-1] > 50
    shown = seqloom(
        "evaluate", str(run / "run"), "--data", str(run / "test.tsv"), "--metric", metric, *imports(files)
    )
    assert metric in shown.stdout


def test_its_answers_are_searched_and_drawn(run, files, added):
    (truncation,) = added["truncation"]
    for typed in ([], ["--search", "sample", "--samples", "3", "--truncate", f"[{{name: {truncation}}}, top_k]"]):
        ran = seqloom("predict", str(run / "run"), *typed, *imports(files), stdin="c b a\nf a\n")
        assert len(ran.stdout.splitlines()) == (6 if typed else 2)


def test_a_model_of_its_own_kind_learns_and_is_used(run, files, added):
    (model,) = added["model"]
    settings = {"train.updates": 200, "train.batch_sentences": 32, "model.size": 48, "train.optimiser.rate": 0.01}
    settings |= {"model.model": model, "data.source": "symbols", "data.target": "symbols"}
    folder = run / "own"
    seqloom(
        *("train", "--train", str(run / "train.tsv"), "--dev", str(run / "dev.tsv"), "--out", str(folder)),
        *(word for path, value in settings.items() for word in ("--set", f"{path}={value}")),
        *imports(files),
    )
    pairs = [line.split("\t") for line in (run / "test.tsv").read_text().splitlines()]
    sources = "".join(source + "\n" for source, _ in pairs)
    for search in ("beam", "greedy"):
        answers = seqloom("predict", str(folder), "--search", search, *imports(files), stdin=sources).stdout
        right = sum(a == target for a, (_, target) in zip(answers.splitlines(), pairs, strict=True))
        assert right > len(pairs) / 2
    on_test = ("--data", str(run / "test.tsv"), *imports(files))
    assert len(seqloom("score", str(folder), *on_test).stdout.splitlines()) == len(pairs)
    value = json.loads(seqloom("evaluate", str(folder), "--metric", "exact", "--json", *on_test).stdout)
    assert value["metrics"]["exact"]["value"] == pytest.approx(100 * right / len(pairs), abs=5)
