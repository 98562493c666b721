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
from benchmarks.pages.tables import (  # noqa: E402
    ABOUT_ERRORS,
    AS_GIVEN,
    ERRORS,
    bullets,
    errors,
    joined,
    rounded,
    without_empty,
)
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
    head = (
        "Every speedup is the lower end of a 95% interval. It is read from the certificates beside the kernels; each "
        "section says over which workloads.",
        "`kernelwright replay ARCHIVE` lists the certificates of an archive, and `kernelwright replay ARCHIVE::NAME` "
        "replays one.",
        AS_GIVEN,
    )
    parts: list[str] = []
    for device in ("cpu", "cuda"):
        for path in (RESULTS / f"optimize_{device}.json", *sorted(RESULTS.glob(f"optimize_{device}_*.json"))):
            parts += section(path.stem.removeprefix("optimize_"), load(path))
    elsewhere, claimed = load(RESULTS / "elsewhere_h200.json"), load(RESULTS / "claims_gpu.json")
    parts += claims(claimed, elsewhere, ROWS)
    parts += answers(answered.read(), load(RESULTS / "judge_gpu.json").get("rows", {}), claimed, elsewhere)
    shown = (ABOUT_ERRORS,) if any(ERRORS in part for part in parts) else ()
    title = "# Results\n\nMade by `python benchmarks/pages/results_page.py` from `benchmarks/results`.\n"
    return joined([title, bullets((*head, *shown)), *parts])


def main() -> None:
    PAGE.write_text(page())
    print(f"written: {PAGE.relative_to(ROOT)}")


def section(device: str, report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    rows = {ref: proven(device, ref) for ref, row in report["tasks"].items() if row["covered"]}
    machine = next((verdict.conditions.device for verdict in rows.values() if verdict), device)
    others = [f"{ref} with `{row['budget']}`" for ref, row in report["tasks"].items() if _differs(report, row)]
    but = f"; but {', '.join(others)}" if others else ""
    parts = [
        f"\n## {machine}\n\nFound by {commands(report, report['tasks'])}{but}. "
        "A figure is the least over all workloads of the task, public and hidden."
    ]
    for title, chosen in (
        ("Memory-bound", [ref for ref in rows if not is_product(ref)]),
        ("Dominated by products", [ref for ref in rows if is_product(ref)]),
    ):
        if not chosen:
            continue
        won = sum(least(rows[ref], "best") > 1 for ref in chosen)
        parts.append(f"\n### {title}: faster than the best baseline on {won} of {len(chosen)}\n")
        head = ("task", "over eager", "over compile", "over the best", ERRORS, "evaluations")
        parts.append(without_empty(head, [speeds(ref, rows[ref], report["tasks"][ref]) for ref in chosen], ERRORS))
        without = [f"`{ref}` ({no_best(report['tasks'][ref])})" for ref in chosen if rows[ref] is None]
        if without:
            parts.append(f"\nNo best: {', '.join(without)}.")
    missing = [f"`{ref}`: {row['why']}" for ref, row in report["tasks"].items() if not row["covered"]]
    if missing:
        parts += ["\nNot covered by the templates:\n", bullets(missing)]
    return parts + described({ref: report["tasks"][ref] for ref, verdict in rows.items() if verdict is not None})


def described(rows: dict[str, dict[str, Any]]) -> list[str]:
    """What the templates say of their kernels, one line for each step."""
    lines = []
    for ref, row in rows.items():
        steps = row["report"]["best"]["note"].split("; then ")
        lines += [f"- `{ref}`: {steps[0]}"] if len(steps) == 1 else [f"- `{ref}`"]
        lines += [f"  {number}. {step}" for number, step in enumerate(steps, 1) if len(steps) > 1]
    return ["\n### What these kernels do\n", *lines] if lines else []


def claims(report: dict[str, Any], elsewhere: dict[str, Any], wanted: tuple[str, ...]) -> list[str]:
    """Kernels judged on a GPU: the public workload with all baselines, and hidden ones against eager alone."""
    if not report:
        return []
    every = read_claims(report, load(RESULTS / "templates_gpu.json"), optimized("cuda"), wanted)
    lenient = sum(one.accepted and one.lenient for one in every)
    head = ("task", "kernel, µs", "eager, µs", "compiled, µs", "over the best", "bound, µs", "hidden, over eager",
            ERRORS, "by hand, µs", "commit")  # fmt: skip
    hands = {ref: columns["by hand"] for ref, columns in elsewhere["others"].items() if "by hand" in columns}
    near = [one for one in every if one.accepted and _reaches(one, hands.get(one.ref, 0.0))]
    columns = (
        f"“Over the best” is on the public size alone, against eager PyTorch and {COMPILED} (the best of three "
        "max-autotune compiles) unless another is named.",
        "“Bound” is what peaks of this GPU allow (gpu_launcher.json).",
        "“Hidden, over eager” is the least over hidden sizes, from half to twice the public one, against eager alone.",
        "“By hand” is what one expert reached, timed by another program.",
    )
    return [
        f"\n## {report['gpu']}: kernels of the templates, found by rough times\n\nJudged by "
        f"{commands(report, report['rows'])}. Each kernel is for one size of its task.\n",
        bullets(columns),
        "\nBaselines of a backward start from its arguments, as a kernel does, and what a forward would keep for it is "
        "part of their work. `compile-training`, where it is named, starts from what a forward kept. "
        f"{lenient} backward rows were judged without it.\n\n### Counts\n",
        bullets([*counted(every), f"Within a tenth of what was reached by hand: {len(near)} of {len(hands)}."]),
        "\n### Rows\n",
        without_empty(
            head,
            [(one.ref, *cells(one), errors(one.hidden), rounded(hands.get(one.ref)), one.commit) for one in every],
            ERRORS,
        ),
    ]


def _reaches(one: Claim, hand: float) -> bool:
    assert one.result.seconds is not None
    return 1e6 * one.result.seconds <= WITHIN * hand


def answers(runs: list[Answered], rows: dict[str, Any], claims: dict[str, Any], elsewhere: dict[str, Any]) -> list[str]:
    """The best kernels of runs whose prompts were answered from files, as their finals judged them."""
    if not runs:
        return []
    head = ("task", "proposals", "began with, µs", "kernel, µs", "eager, µs", "over eager", "hidden, over eager",
            ERRORS, "best of all else, µs", "over it")  # fmt: skip
    lines, won = [], 0
    for one in runs:
        other = answered.best_else(one.ref, rows, claims, elsewhere)
        won += one.won(other)
        times = (rounded(us) for us in (one.began_us, one.us, one.eager_us))
        over = (f"{one.over_eager:.2f}×", f"{one.hidden:.2f}×")
        compared = (f"{rounded(other.us)} ({other.name})", f"{one.over(other):.2f}×")
        lines.append((one.ref, str(one.proposals), *times, *over, errors(one.final), *compared))
    notes = (
        "“Proposals” counts the answers. They were written from the prompt files and nothing else.",
        "The kernel's time and “over eager” are from the final, which times both side by side on the public size and "
        "on hidden ones.",
        "“Best of all else” is the fastest time known for the row: of a compiled baseline in other runs, or of another "
        "program (“elsewhere”).",
        f"Elsewhere are baselines, {elsewhere['others_what']}.",
        "“Over it” takes that time for the lower end over eager.",
    )
    return [
        f"\n## {claims['gpu']}: answers to prompts\n\nFaster than eager and than the best of all else: {won} of "
        f"{len(runs)} rows.\n\nThese are runs of `optimize --proposer files --policy islands --open-requests 5 "
        "--baseline eager --start …` that began with the best of the templates. When they were made, `--open-requests` "
        "was named `--ahead`.\n\n`python benchmarks/pages/answered.py` keeps such runs in "
        "`benchmarks/results/answered.tar.xz`: prompts, answers, candidates, verdicts, journal and certificates.\n",
        bullets(notes),
        "",
        without_empty(head, lines, ERRORS),
    ]


def cells(one: Claim) -> tuple[str, ...]:
    """From the kernel's time to the hidden sizes."""
    if not one.judged:
        return ("-" if one.rough is None else f"{rounded(one.rough)} (rough)", "-", "-", "not judged", "-", "-")
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
        rounded(bound_us(needed(result.bound))),
        f"{one.least_hidden:.2f}×{slower}",
    )


def _micro(seconds: float) -> str:
    return rounded(1e6 * seconds)


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


def speeds(ref: str, verdict: Verdict | None, row: dict[str, Any]) -> tuple[str, ...]:
    over = ("-" if verdict is None else f"{least(verdict, name):.2f}×" for name in ("eager", "compile", "best"))
    return ref, *over, errors(verdict), str(row.get("report", {}).get("evaluations", "-"))


def no_best(row: dict[str, Any]) -> str:
    found = row.get("report", {})
    if found.get("stopped") == "budget":
        return f"ended by its budget of {found['detail']}"
    return found.get("detail") or "; ".join(row.get("failed", ())) or "no speed was measured on every workload"


if __name__ == "__main__":
    main()
