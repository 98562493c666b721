"""Writes the table of docs/templates.md that says how much of KernelBench `templates` covers.

    python benchmarks/pages/coverage_table.py

What stands between the two marks is replaced; the rest of the page is written by hand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.pages.tables import table  # noqa: E402
from benchmarks.shared.record import RESULTS, load  # noqa: E402

PAGE = ROOT / "docs" / "templates.md"
BEGIN, END = "<!-- coverage -->", "<!-- end of coverage -->"
PROBLEMS = {"1": 100, "2": 100, "3": 50}  # of KernelBench's own levels, however many were examined
HEAD = (
    "level",
    "problems",
    "examined",
    "captured",
    "C++ covered",
    "C++ right",
    "CUDA covered",
    "CUDA right",
    "commits",
)
COUNTS = ("problems", "captured", "cpp_covered", "cpp_right", "cuda_covered", "cuda_right")


def coverage(report: dict[str, Any]) -> str:
    rows = []
    for level, found in report["levels"].items():
        commits = sorted({row["commit"] for row in found["rows"].values()})
        counts = (str(found[name]) for name in COUNTS)
        rows.append((level, str(PROBLEMS[level]), *counts, ", ".join(f"`{commit}`" for commit in commits)))
    return table(HEAD, rows)


def written(page: str) -> str:
    text = coverage(load(RESULTS / "kernelbench_coverage.json"))
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{text}\n{END}", page, flags=re.DOTALL)


def main() -> None:
    PAGE.write_text(written(PAGE.read_text()))
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
