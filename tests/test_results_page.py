"""Figures on pages are those of the result files: docs/results.md is made of them, others are typed and compared."""

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
"""With one point: versions have two."""


def module(name):
    """A file of the benchmarks."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
        made = importlib.util.module_from_spec(spec)
        sys.modules[name] = made  # where dataclasses look for it
        spec.loader.exec_module(made)
    finally:
        sys.path.pop(0)
    return made


report = module("report")
records = json.loads((ROOT / "benchmarks" / "results" / "quality.json").read_text(encoding="utf-8"))


def measured(chosen):
    """All figures of records, and the mean of pronunciation's."""
    for record in chosen:
        yield from record["minutes"]
        for metric in record["metrics"].values():
            yield from (metric["value"], *metric["interval"])
    languages = [f"g2p/{language}" for language in report.BASELINE if language != "ice"]
    single = [r["metrics"]["wer"]["value"] for r in chosen if r["case"] in languages and r["seeds"] == [1]]
    if len(single) == len(languages):
        yield mean(single)


def corpus(case):
    """What a case is trained on."""
    return case.split("/")[0]


def published():
    """Those of the shared task, and their mean."""
    return [*report.BASELINE.values(), mean(v for k, v in report.BASELINE.items() if k != "ice")]


def strange(text, figures):
    """Figures of a text that are none of these, rounded."""
    typed = [(match[0], len(match[1])) for match in NUMBER.finditer(text)]
    return [number for number, digits in typed if number not in {f"{figure:.{digits}f}" for figure in figures}]


def test_the_page_of_results_is_made_from_the_result_files():
    shown = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert shown == report.page(), "run benchmarks/report.py"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_the_figures_at_the_head_of_a_recipe_were_measured(recipe):
    head = "".join(line for line in recipe.read_text(encoding="utf-8").splitlines(True) if line.startswith("#"))
    corpora = {corpus(case.name) for case in module("quality").BY_NAME.values() if case.recipe == recipe.name}
    figures = measured([r for r in records if corpus(r["case"]) in corpora])
    assert strange(head, [*figures, *published()]) == []


def test_the_figures_of_the_readme_were_measured():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text[text.index("## How good") : text.index("## More")]
    tutorials = [20.6, 28.3, 36.5]  # tokenised BLEU of bentrevett's, as published
    to_german = [41.0]  # of Wu et al. 2021
    cmudict = [21.7, 5.0]  # on other splits
    published = [
        *report.BASELINE.values(),
        mean(v for k, v in report.BASELINE.items() if k != "ice"),
        *tutorials,
        *to_german,
        *cmudict,
    ]
    races = json.loads((ROOT / "benchmarks" / "results" / "time_to_quality.json").read_text(encoding="utf-8"))
    soon = [*(race["ratio"] for race in races), best_of(races)]
    assert strange(table, [*measured(records), *published, *soon]) == []


def best_of(races):
    """How much sooner we are where each toolkit has what suits it."""
    return min(race["peer_minutes"] for race in races) / min(race["ours_minutes"] for race in races)


def test_a_figure_that_nobody_measured_is_found():
    assert strange("41.3 BLEU with torch 2.13.0", [41.25, 41.349]) == []
    assert strange("41.4 BLEU in 35.30 minutes", [41.349, 35.31]) == ["41.4", "35.30"]
