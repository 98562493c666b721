"""Makes docs/results.md: `python benchmarks/pages/results_page.py`.

From what `optimize_suite.py` and `claims_gpu.py` wrote, and from the runs that `answered.py` kept. Every speedup over a
baseline is read from a signed certificate in an archive under benchmarks/results, not from a report.
"""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.templates_gpu import ROWS  # noqa: E402
from benchmarks.pages import answered  # noqa: E402
from benchmarks.pages.answered import Answered  # noqa: E402
from benchmarks.pages.claimed import COMPILED, Claim, bound_us, counted, low, needed, read_claims  # noqa: E402
from benchmarks.shared.kept import folder_of, optimized, unpacked  # noqa: E402
from benchmarks.shared.record import RESULTS, load  # noqa: E402

from kernelwright.judge import certificate  # noqa: E402
from kernelwright.judge.verdict import SpeedStatus, Verdict  # noqa: E402
from kernelwright.search.core.score import pooled  # noqa: E402
from kernelwright.tasks.resolve import parse  # noqa: E402

PAGE = ROOT / "docs" / "results.md"
PRODUCTS = ("linear", "linear_relu", "llama_ffw", "unet_linear", "unet_conv2d", "resnet_block", "conv_relu_pool")
PARTIAL = ("--sources", "--tasks", "--seconds", "--out")
WITHIN = 1.1  # of what was reached by hand


def page() -> str:
    parts = [
        "# Results\n\nMade by `python benchmarks/pages/results_page.py` from `benchmarks/results`. Every speedup is "
        "the lower end of a 95% interval, read from the certificates beside the kernels; each section says over which "
        "workloads. `kernelwright replay ARCHIVE` lists the certificates of an archive, and "
        "`kernelwright replay ARCHIVE::NAME` replays one."
    ]
    for device in ("cpu", "cuda"):
        parts += section(device, load(RESULTS / f"optimize_{device}.json"))
    elsewhere, claimed = load(RESULTS / "elsewhere_h200.json"), load(RESULTS / "claims_gpu.json")
    parts += claims(claimed, elsewhere, ROWS)
    parts += answers(answered.read(), load(RESULTS / "judge_gpu.json").get("rows", {}), claimed, elsewhere)
    return "\n".join(parts) + "\n"


def main() -> None:
    PAGE.write_text(page())
    print(f"written: {PAGE.relative_to(ROOT)}")


def section(device: str, report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    rows = {ref: proven(device, ref) for ref, row in report["tasks"].items() if row["covered"]}
    machine = next((verdict.conditions.device for verdict in rows.values() if verdict), device)
    others = [f"{ref} with `{row['budget']}`" for ref, row in report["tasks"].items() if _differs(report, row)]
    parts = [
        f"\n## {machine}\n\n{commands(report, report['tasks'])}{'; but ' + ', '.join(others) if others else ''}. A "
        "figure is the least over all workloads of the task, public and hidden."
    ]
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


def claims(report: dict[str, Any], elsewhere: dict[str, Any], wanted: tuple[str, ...]) -> list[str]:
    """Kernels judged on a GPU: the public workload with all baselines, and hidden ones against eager alone."""
    if not report:
        return []
    every = read_claims(report, load(RESULTS / "templates_gpu.json"), optimized("cuda"), wanted)
    lenient = sum(one.accepted and one.lenient for one in every)
    head = ("task", "kernel, µs", "eager, µs", "compiled, µs", "over the best", "bound, µs", "hidden, over eager",
            "by hand, µs", "commit")  # fmt: skip
    hands = {ref: columns["by hand"] for ref, columns in elsewhere["others"].items() if "by hand" in columns}
    near = [one for one in every if one.accepted and _reaches(one, hands.get(one.ref, 0.0))]
    return [
        f"\n## {report['gpu']}: kernels of the templates, found by rough times\n\n{commands(report, report['rows'])}. "
        "Kernels for one size of each task. "
        f"“Over the best” is on that public size alone, against eager PyTorch and {COMPILED} (the best of three "
        "max-autotune compiles) unless another is named. “Bound” is what peaks of this GPU allow "
        "(gpu_launcher.json). “Hidden, over eager” is the least over hidden sizes from half "
        "to twice of it, against eager alone. Baselines of a backward go from its arguments, as a kernel does, what a "
        "forward would keep for it included; `compile-training`, where it is named, does not. Of the backward rows, "
        f"{lenient} were judged without it. “By hand” is what one expert reached, timed by another program.\n\n"
        f"{counted(every)} Within a tenth of what was reached by hand: {len(near)} of {len(hands)}.\n",
        f"| {' | '.join(head)} |\n|{'---|' * len(head)}",
        *(f"| {' | '.join((one.ref, *cells(one), _known(hands.get(one.ref)), one.commit))} |" for one in every),
    ]


def _reaches(one: Claim, hand: float) -> bool:
    assert one.result.seconds is not None
    return 1e6 * one.result.seconds <= WITHIN * hand


def answers(runs: list[Answered], rows: dict[str, Any], claims: dict[str, Any], elsewhere: dict[str, Any]) -> list[str]:
    """The best kernels of runs whose prompts were answered from files, as their finals judged them."""
    if not runs:
        return []
    head = ("task", "proposals", "began with, µs", "kernel, µs", "eager, µs", "over eager", "hidden, over eager",
            "best of all else, µs", "over it")  # fmt: skip
    lines, won = [], 0
    for one in runs:
        other = answered.best_else(one.ref, rows, claims, elsewhere)
        won += one.won(other)
        times = " | ".join(_known(us) for us in (one.began_us, one.us, one.eager_us))
        speeds = f"{one.over_eager:.2f}× | {one.hidden:.2f}×"
        compared = f"{_known(other.us)} ({other.name}) | {one.over(other):.2f}×"
        lines.append(f"| {one.ref} | {one.proposals} | {times} | {speeds} | {compared} |")
    return [
        f"\n## {claims['gpu']}: answers to prompts\n\nRuns of `optimize --proposer files --policy islands --ahead 5 "
        "--baseline eager --start …` from the best of the templates on, kept by `python benchmarks/pages/answered.py` "
        "in `benchmarks/results/answered.tar.xz`: prompts, answers, candidates, verdicts, journal, certificates. The "
        "answers were written from the prompt files and nothing else; “proposals” counts the answers. The kernel's "
        "time and “over eager” are from the final, which times both side by side on the public size and on hidden "
        "ones. “Best of all else” is the fastest that was measured for the row in other runs (compiled) or by "
        f"another program (elsewhere: baselines, {elsewhere['others_what']}), and “over it” takes that time for the "
        "lower end over eager.\n\n"
        f"Faster than eager and than the best of all else: {won} of {len(runs)} rows.\n",
        f"| {' | '.join(head)} |\n|{'---|' * len(head)}",
        *lines,
    ]


def cells(one: Claim) -> tuple[str, ...]:
    """From the kernel's time to the hidden sizes."""
    if not one.judged:
        return ("-" if one.rough is None else f"{one.rough:.4g} (rough)", "-", "-", "not judged", "-", "-")
    if not one.accepted:
        return ("-", "-", "-", f"no claim: {one.why}", "-", "-")
    result = one.result
    assert result.seconds is not None and result.bound is not None
    times = {entry.baseline: entry.seconds for entry in result.baselines}
    eager = times.pop("eager")
    compiled = min(times, key=lambda name: times[name])
    unsure = "" if result.speed is SpeedStatus.measured else f" ({result.speed})"
    slower = f" ({', '.join(one.doubts)})" if one.doubts else ""
    return (
        _micro(result.seconds),
        _micro(eager),
        _micro(times[compiled]) + ("" if compiled == COMPILED else f" ({compiled})"),
        f"{low(result, 'best'):.2f}×{unsure}",
        _known(bound_us(needed(result.bound))),
        f"{one.least_hidden:.2f}×{slower}",
    )


def _known(us: float | None) -> str:
    return "-" if us is None else f"{us:.4g}"


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:.4g}"


def commands(report: dict[str, Any], rows: dict[str, Any]) -> str:
    """Each row's own; rows of older files have one that stands at the top."""
    every = dict.fromkeys(shortly(row.get("command", report.get("command", "unknown"))) for row in rows.values())
    return ", ".join(f"`{command}`" for command in every)


def shortly(command: str) -> str:
    """Without what says how much of the work is done this time, from where and to where. The JSON has all of it."""
    kept: list[str] = []
    leaving = False
    for word in shlex.split(command):
        if word.startswith("--"):
            leaving = word in PARTIAL
        if not leaving:
            kept.append(word)
    return shlex.join(kept)


def _differs(report: dict[str, Any], row: dict[str, Any]) -> bool:
    """A row of an older file, of another run than the one whose command stands at the top."""
    return "command" not in row and "budget" in row and row["budget"] not in report["command"]


def is_product(ref: str) -> bool:
    return parse(ref).name in PRODUCTS


def proven(device: str, ref: str) -> Verdict | None:
    """The verdicts of a task's certificates as one. None where there is no best."""
    joined: Verdict | None = None
    folder = unpacked(optimized(device)) / folder_of(ref)
    for issued in sorted(map(certificate.read, folder.glob("*.json")), key=lambda issued: issued.issued):
        joined = issued.verdict if joined is None else pooled(joined, issued.verdict)
    return joined


def least(verdict: Verdict | None, baseline: str) -> float:
    """Over all workloads; not a number where one was not measured."""
    if verdict is None:
        return math.nan
    every = [low(result, baseline) for result in verdict.workloads]
    return math.nan if any(map(math.isnan, every)) else min(every)


def line(ref: str, verdict: Verdict | None, row: dict[str, Any]) -> str:
    found = row.get("report", {})
    if verdict is None:
        why = found.get("detail") or "; ".join(row.get("failed", ())) or "no speed was measured on every workload"
        return f"| {ref} | - | - | - | {found.get('evaluations', '-')} | no best: {why} |"
    speeds = " | ".join(f"{least(verdict, name):.2f}×" for name in ("eager", "compile", "best"))
    return f"| {ref} | {speeds} | {found['evaluations']} | {found['best']['note']} |"


if __name__ == "__main__":
    main()
