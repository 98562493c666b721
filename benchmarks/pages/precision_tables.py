"""Writes the tables of docs/precision.md from the two runs of the corpus.

    python benchmarks/pages/precision_tables.py

What stands between the two marks of a table is replaced; the rest of the page is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.pages.tables import NONE, table  # noqa: E402
from benchmarks.shared.record import RESULTS, load  # noqa: E402

PAGE = ROOT / "docs" / "precision.md"
SETS = ("judging", "workload", "point")


@dataclass(frozen=True)
class Line:
    """A kernel of the page: how variants are called in the corpus of tolerances and in that of errors, or begin."""

    title: str
    tolerance: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


HONEST = (
    Line("the library's own order", ("library",), ("library",)),
    Line("sequential and reversed sums", ("sequential", "reversed"), ("sequential", "reversed")),
    Line("lanes and trees; split-K", ("lanes",), ("lanes, split-K",)),
    Line("float64 inside", ("float64 sums",), ("float64 inside",)),
    Line("one FMA after the other", (), ("fma",)),
    Line("fast exp and log, rsqrt by a Newton step, products with reciprocals", ("fast-math",), ("fast-math",)),
    Line("the same with sequential sums", ("fast-math, sequential",), ("fast-math, sequential",)),
    Line("3xTF32 with promotion", ("3xTF32, promoted",), ("3xTF32, promoted",)),
    Line("3xTF32 without", ("3xTF32",)),
    Line("bf16x6", ("bf16x6",), ("bf16x6",)),
    Line("bf16x9", ("bf16x9",), ("bf16x9",)),
    Line("online softmax", ("online, *",), ("online, *",)),
    Line("softmax by exp2", ("exp2, *",), ("exp2, *",)),
    Line("Welford", ("Welford, *",), ("Welford*",)),
    Line("one-pass variance", ("one pass, *",), ("one pass, *",)),
    Line("shifted one-pass variance", ("shifted one pass, *",), ("shifted one*",)),
    Line("Winograd F(2x2)", ("Winograd F(2x2), *",), ("Winograd F(2x2), *",)),
    Line("Winograd F(4x4)", ("Winograd F(4x4), *",), ("Winograd F(4x4), *",)),
)
BAD = (
    Line("bias of 2e-5", (), ("bias 2e-5",)),
    Line("bias of 1e-6", (), ("bias 1e-6",)),
    Line("exp of degree four", (), ("quartic exp",)),
    Line("exp of degree three", (), ("cubic exp",)),
    Line("functions to 2^-10", ("functions to 2^-10",)),
    Line("six bits dropped: data that is moved", ("six bits dropped",)),
    Line("six bits dropped: any result, cut", (), ("18 bits, cut",)),
    Line("six bits dropped: any result, rounded", (), ("18 bits, nearest",)),
    Line("rsqrt to 18 bits", (), ("18-bit rsqrt",)),
    Line("TF32", ("inner TF32",), ("TF32", "TF32, cut")),
    Line("2xTF32", ("2xTF32, *",), ("2xTF32, *",)),
    Line("bf16x3", ("bf16x3",), ("bf16x3", "bf16x3, cut")),
    Line("bf16x4", ("bf16x4",), ("bf16x4",)),
    Line("scaled fp16 in two and three parts", ("fp16x2, left", "fp16x3")),
    Line("fp16 sums, which overflow", ("sums in fp16",)),
    Line("bf16 sums", ("sums in bf16",)),
    Line("factors in fp16 or bf16", ("inner fp16", "inner bf16")),
    Line("every step in bf16", (), ("bf16 steps",)),
)


def chosen(names: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Those that are called so, or begin so where a star says it."""
    return [
        name for name in names if any(name == one or (one[-1] == "*" and name.startswith(one[:-1])) for one in wanted)
    ]


def honest_table(tolerance: dict[str, Any], errors: dict[str, Any]) -> str:
    head = ("honest kernel", "tolerance", "all trials", "one workload", "one point")
    nearest = errors["summary"]["nearest by kernel"]
    rows = []
    for line in HONEST:
        used = [row for row in _variants(tolerance, line) if row["kind"] == "honest"]
        names = chosen(nearest, line.errors)
        parts = [f"{max(nearest[name][kind] for name in names):.2f}" if names else NONE for kind in SETS]
        rows.append((line.title, f"{max(float(row['most']) for row in used):.2f}" if used else NONE, *parts))
    return table(head, rows)


def bad_table(tolerance: dict[str, Any], errors: dict[str, Any]) -> str:
    head = ("kernel that must fail", "tolerance", "all trials", "one workload", "one point")
    seen = errors["summary"]["seen"]
    rows = []
    for line in BAD:
        used = [row for row in _variants(tolerance, line) if row["kind"] == "downcast"]
        trials = f"{sum(row['rejected'] for row in used)} of {sum(row['trials'] for row in used)}" if used else NONE
        names = chosen(seen, line.errors)
        parts = [_counts([seen[name][kind] for name in names]) for kind in SETS]
        rows.append((line.title, trials, *parts))
    return table(head, rows)


def _variants(tolerance: dict[str, Any], line: Line) -> list[dict[str, Any]]:
    names = set(chosen((row["variant"] for row in tolerance["rows"]), line.tolerance))
    return [row for row in tolerance["rows"] if row["variant"] in names]


def _counts(found: list[dict[str, int]]) -> str:
    if not found:
        return NONE
    return f"{sum(one['imprecise'] for one in found)} of {sum(one['judged'] for one in found)}"


def blind_table(errors: dict[str, Any]) -> str:
    """Where no set of trials shows a kernel."""
    nowhere = errors["summary"]["seen nowhere"]
    rows = [
        (line.title, ", ".join(f"`{case}`" for case in dict.fromkeys(c for n in names for c in nowhere[n])) or NONE)
        for line in BAD
        if (names := chosen(nowhere, line.errors))
    ]
    return table(("kernel", "cases of the corpus in which nothing is seen"), rows)


def written(page: str) -> str:
    tolerance, errors = load(RESULTS / "tolerance_corpus.json"), load(RESULTS / "precision_corpus.json")
    tables = {
        "honest": honest_table(tolerance, errors),
        "bad": bad_table(tolerance, errors),
        "blind": blind_table(errors),
    }
    for name, text in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        page = re.sub(f"{begin}.*?{end}", lambda _, t=text, b=begin, e=end: f"{b}\n{t}\n{e}", page, flags=re.DOTALL)
    return page


def main() -> None:
    PAGE.write_text(written(PAGE.read_text()))
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
