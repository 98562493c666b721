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
COMPILED = ("compile-best", "compile", "compile-default")  # the strictest of them is told


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
    if "commands" in report:
        rows = [
            (baselines, state, f"{median(seconds):.1f}", str(len(seconds)))
            for baselines, states in report["commands"].items()
            for state, seconds in states.items()
        ]
        parts.append(
            "\n## A single `judge` command\n\nOne kernel for rmsnorm on 3 public and 3 hidden workloads, 12 trials "
            "each, from the start of the command's process to its end.\n"
        )
        parts.append(table(("baselines", "state", "seconds, median", "commands"), rows))
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


def honest(report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    return [
        f"\n## Honest kernels\n\n{report['kernels']} honest kernels under {report['keys']} keys: {report['judgings']} "
        f"judgings with {report['checked_calls']:,} checked calls, {len(report['not_accepted'])} not accepted "
        f"(`{report['command']}`).\n"
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
        f"\n## Soak\n\n{last['candidates']} candidates, honest and hostile in turn, through one warm oracle "
        f"(`{report['command']}`): {outcomes}; {len(report['wrong'])} outcomes other than they must be. Left behind "
        f"when it was stopped, of processes, temporary files and shared memory: {left}. An honest kernel's speedup "
        f"before and after: the intervals {speed}.\n",
        table(("held by the oracle's processes", f"after {first['candidates']}", f"after {last['candidates']}"), rows),
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
    head = (
        "policy",
        "events",
        "evaluations",
        "ms per evaluation",
        "of the processor",
        "first lap",
        "last lap",
        "replay, s",
    )
    return [
        "\n## What a search costs beside judging\n\nJournal, policy, driver and run directory with a judge that takes "
        f"no time (`{report['command']}`), while other work kept the machine at a load of "
        f"{report['load_average']:.1f} on {report['machine']['cores']} cores. A lap is a tenth of the events.\n",
        table(head, rows),
    ]


def policies() -> list[str]:
    parts = []
    for path in sorted(RESULTS.glob("search_policies_*.json")):
        report = load(path.stem)
        rows = [
            (task, name, str(len(found["seeds"])), f"{median(found['final']):.2f}", reached(found))
            for task, compared in report["tasks"].items()
            for name, found in compared["policies"].items()
        ]
        parts.append(
            f"\n## Policies: {path.stem.removeprefix('search_policies_')}\n\nEvaluations until {report['near']:.0%} "
            f"of the best that any policy found, median over seeds (`{report['command']}`).\n"
        )
        parts.append(table(("task", "policy", "seeds", "median of the fastest", "reached after"), rows))
    return parts


def reached(found: dict[str, Any]) -> str:
    counts = found["reached_after"]
    there = sum(count is not None for count in counts)
    middle = found["median_reached_after"]
    return f"{middle:g}, {there} of {len(counts)} seeds" if middle is not None else f"{there} of {len(counts)} seeds"


def gpu(report: dict[str, Any]) -> list[str]:
    """Sections that are missing, or failed, are left out."""
    if not report:
        return []
    name = report["machine"].get("gpu", {}).get("name", "a GPU")
    runs: dict[str, list[str]] = {}
    for section, where in report["taken"].items():
        runs.setdefault(f"`{where['command']}` at {where['commit']}", []).append(section)
    said = "; ".join(f"{', '.join(sections)} by {how}" for how, sections in runs.items())
    parts = [f"\n## On a GPU\n\n{name}; {said}."]
    calls = {name: found for name, found in report.get("commands", {}).items() if "median_seconds" in found}
    batches = {name: found for name, found in report.get("batch", {}).items() if "per_minute" in found}
    if calls or batches:
        rows = [(f"one call, {name}", f"{found['median_seconds']:.2f} s, median") for name, found in calls.items()]
        rows += [(f"a session, {name}", f"{found['per_minute']:.0f} a minute") for name, found in batches.items()]
        parts += ["\nWarm oracle, every candidate with a new source, hidden workloads included unless it says so.\n"]
        parts.append(table(("judging rmsnorm", "result"), rows))
    parts += stages(batches) + bands(report.get("noise", {}))
    spread = report.get("repeats", {}).get("spread", {})
    if spread:
        rows = [(label, f"{100 * value:.2f}%") for label, value in spread.items()]
        parts.append(f"\nOne kernel judged {report['repeats']['judged']} times: how far its medians spread.\n")
        parts.append(table(("workload", "largest over smallest, less 1"), rows))
    hostile = report.get("hostile", {})
    if "inside_band" in hostile:
        accepted = [entry["name"] for entry in hostile["outcomes"] if entry["verdict"] == "accepted"]
        sources, rejected = len({entry["name"] for entry in hostile["outcomes"]}), hostile["judged"] - len(accepted)
        inside, workloads = sum(hostile["inside_band"].values()), len(hostile["inside_band"])
        parts.append(
            f"\nAn honest kernel was {hostile['before']['verdict']}; then came {hostile['judged']} hostile candidates "
            f"of {sources} kinds, of which {rejected} were rejected. Accepted: {', '.join(accepted) or 'none'}, whose "
            "results are right, and whose memory is given back with its process. Then the honest one was "
            f"{hostile['after']['verdict']}, with its time inside the band on {inside} of {workloads} workloads."
        )
    parts += against(report.get("rows", {}), load("claims_gpu"), load("elsewhere_h200"))
    return parts + other_harness(report.get("kbench", {}))


def against(rows: dict[str, Any], claims: dict[str, Any], elsewhere: dict[str, Any]) -> list[str]:
    """What a kernel is up against: the baselines that claims were judged with, and for other rows those measured alone.

    Where another program measured the same rows, differences of more than a tenth are told, with their reason."""
    found: dict[str, tuple[dict[str, float], float]] = {}
    for row in rows.get("rows", []):
        if "us" in row:
            found[row["task"].split()[0]] = row["us"], row["bound_us"]
    for task, row in claims.get("rows", {}).items():
        if "public" in row and (first := row["public"]["workloads"][0])["bound"] is not None:
            found[task] = first["baselines_us"], 1e6 * first["bound"]["seconds"]
    if not found:
        return []
    lines, differences = [], []
    for task, (us, bound) in sorted(found.items()):
        compiled = next((name for name in COMPILED if name in us), "")
        other = dict(elsewhere.get("us", {}).get(task, {}))
        times = {"eager": us.get("eager"), "compile": us.get(compiled), "training": us.get("compile-training")}
        if ":backward" in task and times["training"] is not None and "compile" in other:
            other["training"] = other.pop("compile")  # which is what was measured there
        lines.append(
            (task, *(_micro(times[name]) + _micro(other.get(name), " ({})") for name in times), _micro(bound),
             compiled or "-")
        )  # fmt: skip
        for name, value in other.items():
            mine = times[name]
            if mine is not None and not 0.9 <= mine / value <= 1.1:
                why = elsewhere["differences"].get(task, {}).get(name, "not explained")
                differences.append(f"- `{task}`, {name}: {mine / value - 1:+.0%}: {why}.")
    head = ("task", "eager", "compiled", "compiled, as in training", "bound", "compiled how")
    return [
        f"\nBaselines and bounds of the rows of `robust`, in µs. In brackets: {elsewhere.get('what', 'nothing')}.\n",
        table(head, lines),
        *(["\nDifferences of more than a tenth:\n", *differences] if differences else []),
    ]


def _micro(value: float | None, form: str = "{}") -> str:
    if value is None:
        return "" if form != "{}" else "-"
    return form.format(f"{value:.4g}")


def stages(batches: dict[str, Any]) -> list[str]:
    """Where the time of a candidate in a session goes."""
    rows = [
        (name, stage, f"{1000 * seconds:.0f}")
        for name, found in batches.items()
        for stage, seconds in sorted(found["mean_stage_seconds"].items(), key=lambda pair: -pair[1])
        if seconds >= 0.001
    ]
    head = ("a session", "stage", "ms for each candidate, mean")
    return ["\nWhere the time goes.\n", table(head, rows)] if rows else []


def bands(noise: dict[str, Any]) -> list[str]:
    rows = [
        (name, row["workload"], f"{min(row['baselines_us'].values()):.1f}", str(row["trials"]),
         f"{row['aa']['low']:.3f} to {row['aa']['high']:.3f}", f"{row['band'][0]:.3f} to {row['band'][1]:.3f}",
         "yes" if row["inside"] else "no")
        for name, found in noise.items() if isinstance(found, dict)
        for row in found.get("rows", [])
    ]  # fmt: skip
    head = ("blocks", "workload", "fastest baseline, µs", "taken", "against itself", "band", "inside")
    return ["\nThe fastest baseline against itself, by duration.\n", table(head, rows)] if rows else []


def other_harness(report: dict[str, Any]) -> list[str]:
    if not report.get("ratio"):
        return []
    rows = [
        (entry["source"], *(f"{entry[key]:.1f}" if key in entry else "-" for key in ("correct_s", "time_s")))
        for entry in report["theirs"]
    ]
    ours = " and ".join(f"{seconds:.2f} s" for seconds in report["ours_s"])
    return [
        f"\nrobust-kbench's own correctness and timing steps, in seconds, beside {report['beside']} on the machine; "
        f"judging a kernel for rmsnorm at the size of its task took {ours} here, before that and beside nothing. "
        f"The ratio is {report['ratio']:.0f}, over kernels for which both steps were done. There is no compiled "
        "baseline on either side; ours times eager PyTorch, theirs nothing else.\n",
        table(("kernel of robust-kbench", "correctness", "timing"), rows),
    ]


def taken(report: dict[str, Any]) -> str:
    sections = report.get("taken", {})
    return "; ".join(f"{name} at {where['commit']}" for name, where in sections.items())


def main() -> None:
    report = load("judge_cpu")
    machine = report.get("machine", {})
    head = (
        "# Benchmarks\n\nMade by `python benchmarks/report.py` from the raw data in `benchmarks/results`. "
        f"Machine: {machine.get('cpu', '?')}, {machine.get('cores', '?')} cores of a shared virtual machine, which "
        "takes the cores away for up to 40 ms now and then. "
        f"Command: `python benchmarks/judge_cpu.py` ({taken(report)}).\n"
    )
    parts = [
        *judging(report),
        *honest(load("honest_kernels")),
        *exploits(load("exploits_under_load")),
        *soak(load("soak")),
        *lint(load("lint_builtin")),
        *overhead(load("search_overhead")),
        *policies(),
        *gpu(load("judge_gpu")),
    ]
    PAGE.write_text("\n".join([head, *parts]) + "\n")
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
