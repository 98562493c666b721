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

from corpus.judgings import RULES, Row, cases, finite, measure  # noqa: E402
from kernelwright.judge.oracle.errors.rules import STATISTICS  # noqa: E402

PATH = RESULTS / "precision_corpus.json"
COLUMNS = "judgings called imprecise; largest margins (1 is the limit): mean, rms, rms without factor, share; findings"


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
        result = {"torch": torch.__version__, "seeds": options.seeds, "constants": asdict(STATISTICS)}
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
        figures = "".join(f"{rule}{row.margins[rule]:8.2f}   " for rule in RULES)
        said = "" if row.honest == (row.imprecise == 0) else ("  WRONG" if row.honest else "  not seen")
        print(f"  {row.kernel:32}{figures}{row.imprecise:3} of {row.judgings}{said}", flush=True)


def as_json(row: Row) -> dict[str, Any]:
    return {
        "case": row.case,
        "kernel": row.kernel,
        "honest": row.honest,
        "judgings": row.judgings,
        "imprecise": row.imprecise,
        "margins": {rule: finite(value) for rule, value in row.margins.items()},
        "findings": sorted(row.findings),
    }


def compact(rows: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """By case and kernel, in one line each."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        margins = " ".join(f"{row['margins'][rule]:g}" for rule in RULES)
        line = f"{row['imprecise']} of {row['judgings']}; {margins}; {' '.join(row['findings'])}"
        found.setdefault(row["case"], {})[row["kernel"]] = line
    return found


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    honest = [row for row in rows if row["honest"]]
    bad = [row for row in rows if not row["honest"]]
    kernels = sorted({row["kernel"] for row in bad})
    return {
        "honest judgings": sum(row["judgings"] for row in honest),
        "honest judgings called imprecise": sum(row["imprecise"] for row in honest),
        "nearest honest": {rule: max((row["margins"][rule] for row in honest), default=0.0) for rule in RULES},
        "bad judgings": sum(row["judgings"] for row in bad),
        "seen": {
            kernel: f"{sum(r['imprecise'] for r in bad if r['kernel'] == kernel)} of "
            f"{sum(r['judgings'] for r in bad if r['kernel'] == kernel)}"
            for kernel in kernels
        },
    }


if __name__ == "__main__":
    main()
