"""The page of results is what its generator makes of the result files."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_of_results_is_made_from_the_result_files():
    spec = importlib.util.spec_from_file_location("report", ROOT / "benchmarks" / "report.py")
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    shown = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert shown == report.page(), "run benchmarks/report.py"
