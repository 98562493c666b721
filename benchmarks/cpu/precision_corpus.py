"""Prints what the rules about errors say of emulated kernels: honest ones must not be called imprecise.

    python benchmarks/cpu/precision_corpus.py [--seeds N] [--first SEED] [--jobs N] [--only TEXT]

Writes benchmarks/results/precision_corpus.json (not with --only). A judging is two trials of every family for each
workload, fewer than a real one has.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.shared.record import RESULTS, provenance, save  # noqa: E402

from corpus.judgings import SETS, Row, cases, finite, measure  # noqa: E402
from kernelwright.judge.oracle.errors.rules import RULES  # noqa: E402
from kernelwright.judge.oracle.right.constants import CONSTANTS  # noqa: E402

PATH = RESULTS / "precision_corpus.json"
COLUMNS = (
    "for all trials, each workload, each trial: sets called imprecise, and the largest margins (1 is the limit) of "
    "mean, rms, rms without factor, share; findings"
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the corpus that fixes the rules about errors.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    came = provenance()
    labels = [case.label for case in cases() if options.only in case.label]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for found, seconds in pool.map(run, labels, repeat(options.first), repeat(options.seeds)):
            show(found, seconds)
            rows += map(as_json, found)
    summary = summarise(rows)
    print("\n" + "\n".join(f"{key}: {value}" for key, value in summary.items()))
    if not options.only:
        result = {"torch": torch.__version__, "seeds": options.seeds, "constants": asdict(CONSTANTS)}
        save(PATH, {**result, "summary": summary, "taken": came, "columns": COLUMNS, "cases": compact(rows)})


def run(label: str, first: int, seeds: int) -> tuple[list[Row], float]:
    torch.set_num_threads(1)
    case = next(case for case in cases() if case.label == label)
    start = time.perf_counter()
    return measure(case, range(first, first + seeds)), time.perf_counter() - start


def show(rows: list[Row], seconds: float) -> None:
    if not rows:
        return
    print(f"\n{rows[0].case}  ({seconds:.0f} s)")
    for row in rows:
        parts = []
        for kind in SETS:
            figures = "".join(f"{row.margins[kind][rule]:8.2f}" for rule in RULES)
            parts.append(f"{figures} {row.imprecise[kind]:3} of {row.judged[kind]:3}")
        seen = any(row.imprecise.values())
        said = "" if row.honest != seen else ("  WRONG" if row.honest else "  not seen")
        print(f"  {row.kernel:26}{'  |'.join(parts)}{said}", flush=True)


def as_json(row: Row) -> dict[str, Any]:
    return {
        "case": row.case,
        "kernel": row.kernel,
        "honest": row.honest,
        "judged": {str(kind): row.judged[kind] for kind in SETS},
        "imprecise": {str(kind): row.imprecise[kind] for kind in SETS},
        "margins": {str(kind): {rule: finite(row.margins[kind][rule]) for rule in RULES} for kind in SETS},
        "findings": sorted(row.findings),
    }


def compact(rows: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """By case and kernel, in one line each."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        parts = []
        for kind, margins in row["margins"].items():
            figures = " ".join(f"{margins[rule]:g}" for rule in RULES)
            parts.append(f"{row['imprecise'][kind]} of {row['judged'][kind]}: {figures}")
        found.setdefault(row["case"], {})[row["kernel"]] = "; ".join((*parts, " ".join(row["findings"])))
    return found


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    honest = [row for row in rows if row["honest"]]
    bad = [row for row in rows if not row["honest"]]
    return {
        "honest": {str(kind): counted(honest, str(kind)) for kind in SETS},
        "nearest honest": {
            str(kind): {rule: max((row["margins"][kind][rule] for row in honest), default=0.0) for rule in RULES}
            for kind in SETS
        },
        "nearest by kernel": {
            kernel: {str(kind): max(nearest(row, str(kind)) for row in rows) for kind in SETS}
            for kernel, rows in by_kernel(honest).items()
        },
        "seen": {
            kernel: {str(kind): counted(rows, str(kind)) for kind in SETS} for kernel, rows in by_kernel(bad).items()
        },
        "seen nowhere": {
            kernel: [row["case"] for row in rows if not any(row["imprecise"].values())]
            for kernel, rows in by_kernel(bad).items()
        },
    }


def by_kernel(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = sorted({row["kernel"] for row in rows})
    return {name: [row for row in rows if row["kernel"] == name] for name in names}


def nearest(row: dict[str, Any], kind: str) -> float:
    """The largest margin of any rule."""
    return max(float(value) for value in row["margins"][kind].values())


def counted(rows: list[dict[str, Any]], kind: str) -> dict[str, int]:
    return {
        "judged": sum(row["judged"][kind] for row in rows),
        "imprecise": sum(row["imprecise"][kind] for row in rows),
    }


if __name__ == "__main__":
    main()
