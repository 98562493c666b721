"""Makes docs/results.md from what `optimize_suite.py` wrote: `python benchmarks/results_page.py`.

Every speedup on the page is read from a signed certificate under benchmarks/results/optimized, not from a report.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from kernelwright.judge import certificate
from kernelwright.judge.verdict import Outcome, SpeedStatus, Verdict, WorkloadResult
from kernelwright.search.score import pooled
from kernelwright.tasks.naming import parse

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results.md"
PRODUCTS = ("linear", "llama_ffw", "unet_linear", "unet_conv2d", "resnet_block", "conv_relu_pool")  # and linear_relu
BY_TEMPLATES = "kernels of the templates, found by rough times"
BY_ANSWERS = "answers to prompts, from the best of the templates on"
COMPILED, TRAINING = "compile-best", "compile-training"


def main() -> None:
    parts = [
        "# Results\n\nMade by `python benchmarks/results_page.py` from `benchmarks/results`. A figure is the lower end "
        "of the 95% interval of a speedup, the least over all workloads of the task, public and hidden, as the "
        "certificates beside the kernels say. They can be replayed: `kernelwright replay FILE`."
    ]
    for device in ("cpu", "cuda"):
        path = RESULTS / f"optimize_{device}.json"
        if path.exists():
            parts += section(device, json.loads(path.read_text()))
    for name, folder, found in (("claims_gpu", "cuda", BY_TEMPLATES), ("claims_answers", "answers", BY_ANSWERS)):
        path = RESULTS / f"{name}.json"
        if path.exists():
            parts += claims(json.loads(path.read_text()), RESULTS / "optimized" / folder, found)
    PAGE.write_text("\n".join(parts) + "\n")
    print(f"written: {PAGE.relative_to(ROOT)}")


def section(device: str, report: dict[str, Any]) -> list[str]:
    rows = {ref: proven(device, ref) for ref, row in report["tasks"].items() if row["covered"]}
    machine = next((verdict.conditions.device for verdict in rows.values() if verdict), device)
    others = [f"{ref} with `{row['budget']}`" for ref, row in report["tasks"].items() if _differs(report, row)]
    parts = [f"\n## {machine}\n\n`{report['command']}`{'; but ' + ', '.join(others) if others else ''}"]
    for title, chosen in (
        ("Memory-bound", [ref for ref in rows if not is_product(ref)]),
        ("Dominated by products", [ref for ref in rows if is_product(ref)]),
    ):
        if not chosen:
            continue
        won = sum(least(rows[ref], "best") > 1 for ref in chosen)
        parts.append(f"\n### {title}: faster than the best baseline on {won} of {len(chosen)}\n")
        parts.append(
            "| task | over eager | over compile | over the best | evaluations | kernel |\n|---|---|---|---|---|---|"
        )
        parts += [line(ref, rows[ref], report["tasks"][ref]) for ref in chosen]
    missing = [f"- `{ref}`: {row['why']}" for ref, row in report["tasks"].items() if not row["covered"]]
    return parts + (["\nNot covered by the templates:\n", *missing] if missing else [])


def claims(report: dict[str, Any], kept: Path, found: str) -> list[str]:
    """Kernels judged on a GPU: the public workload with all baselines, and hidden ones against eager alone."""
    lines, won, lenient = [], 0, 0
    for ref in report["rows"]:
        folder = kept / ref.replace(":", "_")
        issued = [certificate.read(path).verdict for path in folder.glob("*.json")]
        public = next((verdict for verdict in issued if len(_baselines(verdict)) > 1), None)
        hidden = next((verdict for verdict in issued if len(_baselines(verdict)) == 1), None)
        if public is None or hidden is None or {public.verdict, hidden.verdict} != {Outcome.accepted}:
            lines.append(f"| {ref} | - | - | - | no claim | - | - | {report['rows'][ref]['commit']} |")
            continue
        result = public.workloads[0]
        lenient += parse(ref).backward and TRAINING not in _baselines(public)
        won += result.speed is SpeedStatus.measured and low(result, "best") > 1
        lines.append(f"{claim(ref, result, hidden)} {report['rows'][ref]['commit']} |")
    head = (
        "task",
        "kernel, µs",
        "eager, µs",
        "compiled, µs",
        "over the best",
        "bound, µs",
        "hidden, over eager",
        "commit",
    )
    return [
        f"\n## {report['gpu']}: {found}\n\n`{report['command']}`. Kernels for one size of each task, judged on that "
        f"size against eager PyTorch and {COMPILED} (the best of three max-autotune compiles) unless another is named, "
        "and on hidden sizes from half to twice of it against eager. Baselines of a backward go "
        "from its arguments, as a kernel does, what a forward would keep for it included; `compile-training`, where it "
        f"is named, does not. Of the backward rows, {lenient} were judged without it.\n\n"
        f"Faster than the best baseline on {won} of {len(lines)}.\n",
        f"| {' | '.join(head)} |\n|{'---|' * len(head)}",
        *lines,
    ]


def claim(ref: str, result: WorkloadResult, hidden: Verdict) -> str:
    assert result.seconds is not None and result.bound is not None
    times = {entry.baseline: entry.seconds for entry in result.baselines}
    eager = times.pop("eager")
    compiled = min(times, key=lambda name: times[name])
    micro = " | ".join(f"{1e6 * seconds:.4g}" for seconds in (result.seconds, eager, times[compiled]))
    micro += "" if compiled == COMPILED else f" ({compiled})"
    unsure = "" if result.speed is SpeedStatus.measured else f" ({result.speed})"
    least_hidden = min(low(one, "eager") for one in hidden.workloads if one.hidden)
    return (
        f"| {ref} | {micro} | {low(result, 'best'):.2f}×{unsure} | {1e6 * result.bound.seconds:.4g} | "
        f"{least_hidden:.2f}× |"
    )


def _baselines(verdict: Verdict) -> set[str]:
    return {entry.baseline for result in verdict.workloads for entry in result.baselines}


def _differs(report: dict[str, Any], row: dict[str, Any]) -> bool:
    return "budget" in row and row["budget"] not in report["command"]


def is_product(ref: str) -> bool:
    return parse(ref).name in (*PRODUCTS, "linear_relu")


def proven(device: str, ref: str) -> Verdict | None:
    """The verdicts of a task's certificates as one. None where there is no best."""
    joined: Verdict | None = None
    folder = RESULTS / "optimized" / device / ref.replace(":", "_")
    for issued in sorted(map(certificate.read, folder.glob("*.json")), key=lambda issued: issued.issued):
        joined = issued.verdict if joined is None else pooled(joined, issued.verdict)
    return joined


def least(verdict: Verdict | None, baseline: str) -> float:
    if verdict is None:
        return math.nan
    return min(low(result, baseline) for result in verdict.workloads)


def low(result: WorkloadResult, baseline: str) -> float:
    if baseline == "best":
        best = result.best_baseline
        return best.speedup.low if best else math.nan
    return next((one.speedup.low for one in result.baselines if one.baseline == baseline), math.nan)


def line(ref: str, verdict: Verdict | None, row: dict[str, Any]) -> str:
    found = row.get("report", {})
    if verdict is None:
        why = found.get("detail") or "; ".join(row.get("failed", ())) or "no speed was measured on every workload"
        return f"| {ref} | - | - | - | {found.get('evaluations', '-')} | no best: {why} |"
    speeds = " | ".join(f"{least(verdict, name):.2f}×" for name in ("eager", "compile", "best"))
    return f"| {ref} | {speeds} | {found['evaluations']} | {found['best']['note']} |"


if __name__ == "__main__":
    main()
