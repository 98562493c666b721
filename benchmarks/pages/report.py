"""Writes docs/benchmarks.md from the raw results in benchmarks/results. Every figure there comes from here.

python benchmarks/pages/report.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.pages.report_gpu import beside_trials, gpu, launcher  # noqa: E402
from benchmarks.pages.tables import AS_GIVEN, bullets, joined, machines, source, sources, table  # noqa: E402
from benchmarks.shared.record import RESULTS, load  # noqa: E402

from kernelwright.judge.timing import statistics  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks.md"
STATES = {  # of a command, as older results name them
    "own oracle, built before": "no server, built before",
    "starts the oracle": "starts the server",
    "warm oracle": "warm server",
}
OLDER = "\nThe stored data call the server an oracle, and were made when `--no-server` was named `--own-oracle`.\n"


def interval(values: list[float]) -> str:
    return f"{values[0]:.2f} to {values[2]:.2f}"


def judging(report: dict[str, Any], elsewhere: dict[str, Any]) -> list[str]:
    parts = [*commands(report.get("commands", {})), *session(report.get("warm", {}))]
    if "candidates" in report:
        rows = [(n, f"{s:.1f}", f"{s / int(n):.2f}") for n, s in report["candidates"].items()]
        parts.append("\n## Growth with the number of candidates in one session\n")
        parts.append(table(("candidates", "seconds", "per candidate"), rows))
    if "workloads" in report:
        parts.append(
            "\n## Growth with the number of workloads\n\nEager baseline, 12 trials each. An oracle keeps 4 GiB of "
            "values on a host. Where workloads have more, they are drawn anew for each candidate.\n"
        )
        parts.append(growth(report["workloads"]))
        if "workloads" in elsewhere:
            parts.append(
                f"\nOn another machine ({machines(elsewhere)}; {source(elsewhere)}, commit not recorded, "
                "`judge_cpu_host.json`):\n"
            )
            parts.append(growth(elsewhere["workloads"]))
    return parts + noise(report.get("noise", {}))


def commands(found: dict[str, Any]) -> list[str]:
    rows = [
        (baselines, STATES.get(state, state), f"{median(seconds):.1f}", str(len(seconds)))
        for baselines, states in found.items()
        for state, seconds in states.items()
    ]
    older = any(state in STATES for states in found.values() for state in states)
    text = (
        "\n## A single `judge` command\n\nOne kernel for rmsnorm on 3 public and 3 hidden workloads, 12 trials each, "
        "from the start of the command's process to its end. “No server” is `--no-server`.\n"
        f"{OLDER if older else ''}"
    )
    return [text, table(("baselines", "state", "seconds, median", "commands"), rows)] if rows else []


def session(found: dict[str, Any]) -> list[str]:
    rows = [
        (name, f"{one['first']:.1f}", f"{median(one['fresh build']):.1f}", f"{min(one['fresh build']):.1f}",
         f"{median(one['cached build']):.1f}")
        for name, one in found.items()
    ]  # fmt: skip
    text = (
        "\n## A candidate in a session\n\nSeconds per candidate on 3 public and 3 hidden workloads, 12 trials each, "
        "with oracle and baselines up. A session gets quicker as more of the 16 hidden workloads have been seen. The "
        "quickest candidate is one all of whose workloads had been seen.\n"
    )
    head = ("baselines", "first", "median, fresh build", "quickest, fresh build", "same source again")
    return [text, table(head, rows)] if rows else []


def growth(workloads: dict[str, Any]) -> str:
    rows = [
        (n, f"{s['cold pool']:.1f}", f"{s['warm pool']:.2f}", f"{s['warm pool'] / int(n):.2f}")
        for n, s in workloads.items()
    ]
    return table(("workloads", "cold pool, s", "warm pool, s", "per workload, warm"), rows)


def noise(found: dict[str, Any]) -> list[str]:
    """For every size of sample that was taken."""
    if not found:
        return []
    names = list(dict.fromkeys(name for samples in found.values() for name in samples))
    rows = []
    for label, samples in found.items():
        longest = list(samples.values())[-1]
        rows.append(
            (label, f"{1e3 * longest['eager_seconds']:.2f}", *(against_itself(samples.get(name)) for name in names))
        )
    band = statistics.band("cpu", 1.0)
    return [
        "\n## How far a speed can be trusted\n\nThe interval of eager PyTorch against itself (A/A). A speed is "
        f"measured only where it lies within {band.low:.2f} to {band.high:.2f}, and undecided elsewhere.\n\nWith a "
        "fixed number of blocks the baseline is called once for each time. “As the noise demands” is how the judge "
        "goes on: more blocks, and more calls in each.\n",
        table(("rmsnorm workload", "eager, ms", *(f"A/A, {name}" for name in names)), rows),
    ]


def against_itself(sample: dict[str, Any] | None) -> str:
    if sample is None:
        return "-"
    taken = f" ({sample['trials']} blocks)" if "trials" in sample else ""
    return interval(sample["aa"]) + taken


def exploits(report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    same = "the same" if report["same_outcome_every_time"] else "not always the same"
    right = "as they must be every time" if report["as_it_must_be_every_time"] else "not as they must be every time"
    return [
        f"\n## Exploits under load\n\n{report['pairs']} pairs of exploit and honest twin, {report['passes']} times "
        f"in a row, while another process loads a core. Outcomes were {same}, and {right}.\n\nMade by "
        f"{source(report)}.\n"
    ]


def honest(report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    return [
        f"\n## Honest kernels\n\n{report['kernels']} honest kernels under {report['keys']} keys: {report['judgings']} "
        f"judgings with {report['checked_calls']:,} checked calls, {len(report['not_accepted'])} not accepted.\n\n"
        f"Made by {source(report)}.\n"
    ]


def soak(report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(report["outcomes"].items()))
    first, last = report["held"][0], report["held"][-1]
    rows = [(name, str(first[name]), str(last[name])) for name in ("processes", "descriptors", "resident_mib")]
    left = ", ".join(name for names in report["left_behind"].values() for name in names) or "nothing"
    speed = "overlap" if report["same_speed"] else "do not overlap"
    return [
        f"\n## Soak\n\n{last['candidates']} candidates, honest and hostile in turn, through one server, by "
        f"{source(report)}.\n",
        bullets(
            (
                f"Outcomes: {outcomes}; {len(report['wrong'])} other than they must be.",
                f"Left behind when it was stopped, of processes, temporary files and shared memory: {left}.",
                f"An honest kernel's speedup before and after: the intervals {speed}.",
            )
        ),
        "",
        table(("held by the server's processes", f"after {first['candidates']}", f"after {last['candidates']}"), rows),
    ]


def lint(report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    found = [(one["task"], finding) for one in report["tasks"] for finding in one["findings"]]
    warned = [(task, finding["message"]) for task, finding in found if finding["severity"] == "warning"]
    errors = sum(finding["severity"] == "error" for _, finding in found)
    return [
        f"\n## Lint of the built-in tasks\n\n`{report['run']}`: {len(report['tasks'])} tasks in "
        f"{report['wall_seconds']:.0f} s, {errors} errors, {len(warned)} warnings.\n",
        table(("task", "warning"), warned),
    ]


def overhead(report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    rows = [
        (name, f"{found['events']:,}", str(found["evaluations"]), f"{found['ms_per_evaluation']:.2f}",
         f"{found['processor_ms_per_evaluation']:.2f}",
         f"{found['ms_per_evaluation_by_lap'][0]:.2f}", f"{found['ms_per_evaluation_by_lap'][-1]:.2f}",
         f"{found['replay_seconds']:.2f}")
        for name, found in report["policies"].items()
    ]  # fmt: skip
    head = ("policy", "events", "evaluations", "ms per evaluation", "of the processor", "first lap", "last lap",
            "replay, s")  # fmt: skip
    load_average = report["machine"].get("load_average", report.get("load_average"))
    return [
        "\n## What a search costs beside judging\n\nJournal, policy, driver and run directory with a judge that takes "
        f"no time. A lap is a tenth of the events.\n\nMade by {source(report)}; the load was {load_average:.1f} on "
        f"{report['machine']['cores']} cores before it began.\n",
        table(head, rows),
    ]


def policies() -> list[str]:
    parts = []
    for path in sorted(RESULTS.glob("search_policies_*.json")):
        report = load(path)
        rows = [
            (task, name, str(len(found["seeds"])), f"{median(found['final']):.2f}×", reached(found))
            for task, compared in report["tasks"].items()
            for name, found in compared["policies"].items()
        ]
        parts.append(
            f"\n## Policies: {path.stem.removeprefix('search_policies_')}\n\n{speedups(report)} “Evaluations” are "
            f"those until {report['near']:.0%} of the best that any policy found in any run, median over the seeds.\n\n"
            f"{at_once(report)}Made by {source(report)}.\n"
        )
        parts.append(table(("task", "policy", "seeds", "speedup of the fastest, median", "evaluations"), rows))
    return parts


def speedups(report: dict[str, Any]) -> str:
    if "judged" not in report:
        return "Speedups are those of a landscape that is made up."
    return "Speedups are over eager PyTorch; they are the estimates by which a search ranks candidates."


def at_once(report: dict[str, Any]) -> str:
    """Templates begin with the expert's choice of genes, but for random sampling: then this compares no policies."""
    every = [found for compared in report["tasks"].values() for found in compared["policies"].values()]
    if "judged" not in report or not any(found["median_reached_after"] == 1 for found in every):
        return ""
    return (
        "Where it is 1, the first candidate was enough: for every policy but `random` the templates begin with the "
        "choice of genes that an expert would make. That says how good this choice is here, and nothing about how "
        "well a policy searches.\n\n"
    )


def reached(found: dict[str, Any]) -> str:
    counts = found["reached_after"]
    there = sum(count is not None for count in counts)
    middle = found["median_reached_after"]
    reached_by = f"reached by {there} of {len(counts)} seeds"
    return f"{middle:g}, {reached_by}" if middle is not None else reached_by


def page() -> str:
    report = load(RESULTS / "judge_cpu.json")
    head = (
        f"# Benchmarks\n\nMade by `python benchmarks/pages/report.py` from `benchmarks/results`. {AS_GIVEN}\n\n"
        f"The first sections are about judging on a CPU: {machines(report)}.\n\n{sources(report)}\n"
    )
    parts = [
        *judging(report, load(RESULTS / "judge_cpu_host.json")),
        *honest(load(RESULTS / "honest_kernels.json")),
        *exploits(load(RESULTS / "exploits_under_load.json")),
        *soak(load(RESULTS / "soak.json")),
        *lint(load(RESULTS / "lint_builtin.json")),
        *overhead(load(RESULTS / "search_overhead.json")),
        *policies(),
        *gpu(load(RESULTS / "judge_gpu.json")),
        *launcher(load(RESULTS / "gpu_launcher.json")),
        *beside_trials(load(RESULTS / "quicker_cpu.json")),
    ]
    return joined([head, *parts])


def main() -> None:
    PAGE.write_text(page())
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
