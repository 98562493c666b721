"""Writes docs/benchmarks.md from the raw results in benchmarks/results. Every figure there comes from here.

python benchmarks/report.py
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"


def load(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def interval(values: list[float]) -> str:
    return f"{values[0]:.2f} to {values[2]:.2f}"


def judging(report: dict[str, Any]) -> list[str]:
    parts = []
    if "cold" in report:
        rows = [(name, f"{seconds:.1f}") for name, seconds in report["cold"].items()]
        parts.append("## A whole command\n\nOne kernel for rmsnorm, 3 public and 3 hidden workloads, 12 trials each.\n")
        parts.append(table(("baselines, state", "seconds"), rows))
    if "warm" in report:
        rows = [
            (name, f"{found['first']:.1f}", f"{median(found['fresh build']):.1f}", f"{min(found['fresh build']):.1f}",
             f"{median(found['cached build']):.1f}")
            for name, found in report["warm"].items()
        ]  # fmt: skip
        parts.append(
            "\n## A candidate in a session\n\nSeconds per candidate on 3 public and 3 hidden workloads, 12 trials "
            "each, oracle and baselines up. A session gets quicker once more of the 16 hidden workloads were seen; "
            "the quickest is one whose workloads all had.\n"
        )
        head = ("baselines", "first", "median, fresh build", "quickest, fresh build", "same source again")
        parts.append(table(head, rows))
    for section, title in (("candidates", "candidates in one session"),):
        if section in report:
            rows = [(n, f"{s:.1f}", f"{s / int(n):.2f}") for n, s in report[section].items()]
            parts.append(f"\n## Growth with the number of {title}\n")
            parts.append(table(("candidates", "seconds", "per candidate"), rows))
    if "workloads" in report:
        rows = [
            (n, f"{s['cold pool']:.1f}", f"{s['warm pool']:.2f}", f"{s['warm pool'] / int(n):.2f}")
            for n, s in report["workloads"].items()
        ]
        parts.append("\n## Growth with the number of workloads\n\nEager baseline, 12 trials each.\n")
        parts.append(table(("workloads", "cold pool, s", "warm pool, s", "per workload"), rows))
    if "noise" in report:
        rows = [
            (label, f"{found['36 blocks']['eager_seconds'] * 1e3:.2f}", interval(found["12 blocks"]["aa"]),
             interval(found["36 blocks"]["aa"]))
            for label, found in report["noise"].items()
        ]  # fmt: skip
        parts.append(
            "\n## How far a speed can be trusted\n\nThe interval of eager PyTorch against itself. A speed is measured "
            "only where it lies within 0.95 to 1.05, and undecided elsewhere.\n"
        )
        parts.append(table(("rmsnorm workload", "eager, ms", "A/A, 12 blocks", "A/A, 36 blocks"), rows))
    if "honest" in report:
        found = report["honest"]
        parts.append(
            f"\n## Honest kernels\n\n{found['kernels']} honest kernels under {found['keys']} keys: "
            f"{found['judged']} judgings, {len(found['not_accepted'])} not accepted.\n"
        )
    return parts


def exploits(report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    same = "the same" if report["same_outcome_every_time"] else "not always the same"
    right = "as it must be every time" if report["as_it_must_be_every_time"] else "not as it must be every time"
    return [
        f"\n## Exploits under load\n\n{report['pairs']} pairs of exploit and honest twin, {report['passes']} times "
        f"in a row, while another process loads a core: outcomes were {same}, and {right} "
        f"(`{report['command'].strip()}`).\n"
    ]


def main() -> None:
    report = load("judge_cpu")
    machine = report.get("machine", {})
    head = (
        "# Benchmarks\n\nMade by `python benchmarks/report.py` from the raw data in `benchmarks/results`. "
        f"Machine: {machine.get('cpu', '?')}, {machine.get('cores', '?')} cores of a shared virtual machine. "
        "Command: `python benchmarks/judge_cpu.py`.\n"
    )
    PAGE.write_text("\n".join([head, *judging(report), *exploits(load("exploits_under_load"))]) + "\n")
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
