"""Figures in the documentation equal the recorded results: docs/results.md is generated, others are compared."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).parent.parent
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
NUMBER = re.compile(r"(?<![\d.])\d+\.(\d+)(?![\d.])")
"""A number with one decimal point, unlike a version."""


def load_benchmark(name):
    """Import a module of the benchmarks."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look it up there
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


report = load_benchmark("report")
records = json.loads((ROOT / "benchmarks" / "results" / "quality.json").read_text(encoding="utf-8"))
races = json.loads((ROOT / "benchmarks" / "results" / "time_to_quality.json").read_text(encoding="utf-8"))


def measured_figures(chosen):
    """All figures of the given records, and the mean error rate of grapheme-to-phoneme conversion."""
    for record in chosen:
        yield from record["minutes"]
        for metric in record["metrics"].values():
            yield from (metric["value"], *metric["interval"])
    languages = [f"g2p/{language}" for language in report.BASELINE if language != "ice"]
    single = [
        r["metrics"]["sequence_error_rate"]["value"] for r in chosen if r["case"] in languages and r["seeds"] == [1]
    ]
    if len(single) == len(languages):
        yield mean(single)


def corpus(case):
    """Name of the corpus of a case."""
    return case.split("/")[0]


def baseline_figures():
    """Figures of the baseline of SIGMORPHON 2021, and their mean."""
    return [*report.BASELINE.values(), mean(v for k, v in report.BASELINE.items() if k != "ice")]


def unmeasured(text, figures):
    """Numbers in a text that equal none of the figures when these are rounded."""
    numbers = [(match[0], len(match[1])) for match in NUMBER.finditer(text)]
    return [number for number, digits in numbers if number not in {f"{figure:.{digits}f}" for figure in figures}]


def test_results_page_is_generated_from_the_result_files():
    shown = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert shown == report.page(), "run benchmarks/report.py"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_figures_in_the_comment_of_a_recipe_were_measured(recipe):
    comment = "".join(line for line in recipe.read_text(encoding="utf-8").splitlines(True) if line.startswith("#"))
    cases = load_benchmark("quality").BY_NAME.values()
    corpora = {corpus(case.name) for case in cases if case.recipe == recipe.name}
    figures = measured_figures([r for r in records if corpus(r["case"]) in corpora])
    assert unmeasured(comment, [*figures, *baseline_figures()]) == []


def test_every_recipe_of_a_case_exists():
    names = {case.recipe for case in load_benchmark("quality").BY_NAME.values() if case.recipe}
    assert names <= {recipe.name for recipe in RECIPES}


def test_every_result_belongs_to_a_case():
    assert {r["case"] for r in records} <= {case.name for case in load_benchmark("quality").CASES}


def test_figures_of_the_readme_were_measured():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text[text.index("## Results") : text.index("## Documentation")]
    tutorials = [20.6, 28.3, 36.5]  # bentrevett's tutorials, tokenized BLEU
    to_german = [41.0]  # Wu et al. 2021
    cmudict = [21.7]  # other splits
    published = [*baseline_figures(), *tutorials, *to_german, *cmudict]
    speedups = [*(race["ratio"] for race in races), best_speedup()]
    assert unmeasured(section, [*measured_figures(records), *published, *speedups]) == []


def best_speedup():
    """Ratio of the times to reach the target, each toolkit with its best batch size and learning rate."""
    return min(race["peer_minutes"] for race in races) / min(race["ours_minutes"] for race in races)


def test_unmeasured_figures_are_found():
    assert unmeasured("41.3 BLEU with torch 2.13.0", [41.25, 41.349]) == []
    assert unmeasured("41.4 BLEU in 35.30 minutes", [41.349, 35.31]) == ["41.4", "35.30"]
