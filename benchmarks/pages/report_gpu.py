"""The part of docs/benchmarks.md about judging on a GPU: see report.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pages import answered
from benchmarks.pages.answered import Answered
from benchmarks.pages.claimed import bound_us, needed
from benchmarks.pages.tables import bullets, machines, rounded, source, sources, table
from benchmarks.shared.record import RESULTS, load

from kernelwright.judge.baseline_names import TRAINING
from kernelwright.judge.verdict import BoundValue
from kernelwright.tasks.cost import Cost

COMPILED = ("compile-best", "compile", "compile-default")  # the strictest of them is shown


def gpu(report: dict[str, Any]) -> list[str]:
    """Sections that are missing, or failed, are left out."""
    if not report:
        return []
    name = report["machine"].get("gpu", {}).get("name", "a GPU")
    parts = [f"\n## On a GPU\n\n{name}.\n\n{sources(report)}\n"]
    calls = whole_commands(report)
    batches = {name: found for name, found in report.get("batch", {}).items() if "per_minute" in found}
    if calls or batches:
        rows = [(f"one call, {name}", f"{found['median_seconds']:.2f} s, median") for name, found in calls.items()]
        rows += [(f"a session, {name}", f"{found['per_minute']:.0f} a minute") for name, found in batches.items()]
        parts.append(
            "\n### Judging\n\nServer and session are warm. Every candidate has a new source. Hidden workloads are "
            "included unless it says so.\n"
        )
        parts.append(table(("judging rmsnorm", "result"), rows))
    parts += stages(batches) + bands(report.get("noise", {}))
    spread = report.get("repeats", {}).get("spread", {})
    if spread:
        rows = [(label, f"{100 * value:.2f}%") for label, value in spread.items()]
        parts.append(f"\n### One kernel judged {report['repeats']['judged']} times: how far its medians spread\n")
        parts.append(table(("workload", "largest over smallest, less 1"), rows))
    parts += hostile(report.get("hostile", {}))
    runs = answered.read()
    parts += against(
        report.get("rows", {}), load(RESULTS / "claims_gpu.json"), load(RESULTS / "elsewhere_h200.json"), runs
    )
    parts += busy(runs, load(RESULTS / "optimize_h200.json"))
    return parts + other_harness(report.get("kbench", {}), calls)


def whole_commands(report: dict[str, Any]) -> dict[str, Any]:
    return {name: found for name, found in report.get("commands", {}).items() if "median_seconds" in found}


def hostile(report: dict[str, Any]) -> list[str]:
    """What became of hostile candidates, by verdict. Older results name as `accepted` those that are not harmless."""
    if "inside_band" not in report:
        return []
    outcomes = report["outcomes"]
    verdicts = Counter(entry["verdict"] for entry in outcomes)
    accepted = list(dict.fromkeys(entry["name"] for entry in outcomes if entry["verdict"] == "accepted"))
    harmless = report.get("harmless") or {name: "" for name in accepted if name not in report["accepted"]}
    listed = [f"`{name}`, {_which(name, harmless)}" for name in accepted]
    inside, workloads = sum(report["inside_band"].values()), len(report["inside_band"])
    return [
        f"\n### Hostile candidates\n\nAn honest kernel was {report['before']['verdict']}; then came {len(outcomes)} "
        f"hostile candidates of {len({entry['name'] for entry in outcomes})} kinds: "
        f"{', '.join(f'{count} {verdict}' for verdict, count in verdicts.most_common())}."
        f"{' Accepted: ' + '; '.join(listed) + '.' if listed else ''}\n\nThen the honest one was "
        f"{report['after']['verdict']}, with its time inside the band on {inside} of {workloads} workloads."
    ]


def _which(name: str, harmless: dict[str, str]) -> str:
    if name not in harmless:
        return "which it must not be"
    return "which the benchmark counts as harmless" + (f" ({harmless[name]})" if harmless[name] else "")


def busy(runs: list[Answered], alone: dict[str, Any]) -> list[str]:
    """How much of a search's time its judge is at work."""
    lines = []
    for one in runs:
        for number, part in enumerate(answered.stretches(one.folder), 1):
            lines.append((f"{one.ref}, part {number}", f"{part.seconds:.0f} s", str(part.judged), f"{part.share:.0%}"))
    if alone:
        report = alone["report"]
        share = report["device_seconds"] / report["wall_seconds"]
        took, judged = f"{report['wall_seconds']:.0f} s", str(report["evaluations"])
        lines.append((f"{report['task']}, by the templates, beside {alone['beside']}", took, judged, f"{share:.0%}"))
    if not lines:
        return []
    head = ("run", "took", "judgings", "of its time")
    return [
        "\n### How much of a run's time the judge was at work\n\nFrom the journals in "
        "`benchmarks/results/answered.tar.xz`, part by part where a run was stopped and taken up again.\n",
        bullets(
            (
                "Between the first and the last judging of a part the judge works all the time.",
                "The rest goes before, to open the task where no warm server has it, and after, to wait for answers "
                "that were not written yet.",
                "A judging that a stop cuts off counts as rest.",
            )
        ),
        "",
        table(head, lines),
    ]


def against(
    rows: dict[str, Any], claims: dict[str, Any], elsewhere: dict[str, Any], runs: Sequence[Answered] = ()
) -> list[str]:
    """What a kernel is up against: the baselines that claims were judged with, and for other rows those measured alone,
    or in the final of a run.

    Where another program measured the same rows, differences of more than a tenth are listed, with their reason."""
    found: dict[str, tuple[dict[str, float], float]] = {}
    for one in runs:
        if one.public.bound is not None:
            timed = {entry.baseline: 1e6 * entry.seconds for entry in one.public.baselines if entry.seconds is not None}
            found[one.ref] = timed, bound_us(needed(one.public.bound))
    for row in rows.get("rows", []):
        if "us" in row:
            found[row["task"].split()[0]] = row["us"], bound_us(Cost(**row["cost"]))
    for task, row in claims.get("rows", {}).items():
        if "public" in row and (first := row["public"]["workloads"][0])["bound"] is not None:
            found[task] = first["baselines_us"], bound_us(needed(BoundValue(**first["bound"])))
    if not found:
        return []
    lines = []
    differences: dict[str, list[str]] = {}  # by their reason
    for task, (us, bound) in sorted(found.items()):
        compiled = next((name for name in COMPILED if name in us), "")
        other = dict(elsewhere.get("us", {}).get(task, {}))
        times = {"eager": us.get("eager"), "compile": us.get(compiled), "training": us.get(TRAINING)}
        if ":backward" in task and times["training"] is not None and "compile" in other:
            other["training"] = other.pop("compile")  # which is what was measured there
        lines.append(
            (Path(task).name, *(_micro(times[name]) + _micro(other.get(name), " ({})") for name in times),
             _micro(bound), compiled or "-")
        )  # fmt: skip
        for name, value in other.items():
            mine = times[name]
            if mine is not None and not 0.9 <= mine / value <= 1.1:
                why = elsewhere["differences"].get(task, {}).get(name, "not explained")
                differences.setdefault(why, []).append(f"  - `{task}`, {name}: {mine / value - 1:+.0%}")
    head = ("task", "eager", "compiled", "compiled, as in training", "bound", "compiled how")
    return [
        "\n### Baselines and bounds of the rows of `robust`, in µs\n\nBaselines are those that claims were "
        "judged with; for other rows those measured alone, whose commands are in judge_gpu.json, or in the final of a "
        "run. Bounds are those of the peaks in gpu_launcher.json.\n\n"
        f"In brackets: {elsewhere.get('what', 'nothing')}.\n",
        table(head, lines),
        *(["\nDifferences of more than a tenth, by their reason:\n"] if differences else []),
        *("\n".join((f"- {why[0].upper()}{why[1:]}.", *found)) for why, found in differences.items()),
    ]


def _micro(value: float | None, form: str = "{}") -> str:
    if value is None:
        return "" if form != "{}" else "-"
    return form.format(rounded(value))


def stages(batches: dict[str, Any]) -> list[str]:
    """Where the time of a candidate in a session goes."""
    rows = [
        (name, stage, f"{1000 * seconds:.0f}")
        for name, found in batches.items()
        for stage, seconds in sorted(found["mean_stage_seconds"].items(), key=lambda pair: -pair[1])
        if seconds >= 0.001
    ]
    head = ("a session", "stage", "ms for each candidate, mean")
    return ["\n### Where the time goes\n", table(head, rows)] if rows else []


def bands(noise: dict[str, Any]) -> list[str]:
    rows = [
        (name, row["workload"], f"{min(row['baselines_us'].values()):.1f}", str(row["trials"]),
         f"{row['aa']['low']:.3f} to {row['aa']['high']:.3f}", f"{row['band'][0]:.3f} to {row['band'][1]:.3f}",
         "yes" if row["inside"] else "no")
        for name, found in noise.items() if isinstance(found, dict)
        for row in found.get("rows", [])
    ]  # fmt: skip
    head = ("blocks", "workload", "fastest baseline, µs", "taken", "against itself", "band", "inside")
    return ["\n### The fastest baseline against itself, by duration\n", table(head, rows)] if rows else []


def other_harness(report: dict[str, Any], calls: dict[str, Any]) -> list[str]:
    """Their two steps beside our judging, with all that differs said where the ratio is."""
    done = [entry["correct_s"] + entry["time_s"] for entry in report.get("theirs", []) if "time_s" in entry]
    if not done:
        return []
    rows = [
        (entry["source"], *(f"{entry[key]:.1f}" if key in entry else "-" for key in ("correct_s", "time_s")))
        for entry in report["theirs"]
    ]
    theirs, ours = median(done), " and ".join(f"{seconds:.2f} s" for seconds in report["ours_s"])
    whole = (
        f"to a whole `judge` command ({name}; server, a new process, other sizes of rmsnorm): "
        f"{theirs / found['median_seconds']:.0f}"
        for name, found in calls.items()
    )
    meanwhile = "with nothing else" if report["beside"] == "nothing" else f"beside other work ({report['beside']})"
    unlike = (
        "Theirs are cold processes, one for each step, that import torch and build the kernel, "
        f"{meanwhile} on the GPU.",
        "Ours, before that in the same run, is a warm session of 12 trials with oracle, baseline and compiler up, "
        "without sanitizers.",
        "The kernels are different ones.",
        "Neither side has a compiled baseline; ours times eager PyTorch, theirs nothing else.",
    )
    return [
        f"\n### robust-kbench's own steps\n\nIts correctness and timing steps took {theirs:.0f} s together, median "
        "over the kernels for which both were done. Judging two kernels for rmsnorm at the size of its task took "
        f"{ours} here. It is not the same work:\n",
        bullets(unlike),
        "\nWith that said, the ratio of theirs\n",
        bullets((f"to a judging in that session: {theirs / median(report['ours_s']):.0f}", *whole)),
        "",
        table(("kernel of robust-kbench", "correctness, s", "timing, s"), rows),
    ]


def launcher(report: dict[str, Any]) -> list[str]:
    """What starting, calling and building takes below the judge, and the peaks that bounds go by."""
    if not report:
        return []
    empty, peaks = report["empty"], report["peaks"]
    disagreeing = [name for name, spin in report["spins"].items() if spin["disagreement"]]
    rows = [
        ("start of a launcher, median", f"{median(report['launcher_up_s']):.2f} s"),
        ("one trial of an empty call", f"{report['empty_trial_ms']:.2f} ms"),
        ("an empty call, device's clock, median", f"{empty['device_us']['median']:.2f} µs"),
        ("an empty call, clock outside, median", f"{empty['outside_us']['median']:.2f} µs"),
        ("spins of known length on which the clocks disagree", f"{len(disagreeing)} of {len(report['spins'])}"),
        *(
            (f"rmsnorm {size} in {len(found['medians_us'])} processes: largest median over smallest, less 1",
             f"{100 * (max(found['medians_us']) / min(found['medians_us']) - 1):.1f}%")
            for size, found in report["repeats"].items()
        ),
        *((f"build of {name.replace(' ', ', compiler ')}", f"{seconds:.2f} s")
          for name, seconds in report["build_s"].items()),
        *((f"peak, {name}", f"{peaks[name] / 1e12:.2f} TB/s") for name in ("copy", "read")),
        *((f"peak, {name}", f"{peaks[name] / 1e12:.0f} TFLOP/s")
          for name in ("float64", "float32", "tf32", "float16", "bfloat16", "float8")),
        ("launch", f"{1e6 * peaks['launch']:.2f} µs"),
    ]  # fmt: skip
    return [
        f"\n## Below the judge on a GPU\n\n{report['gpu']['name']}, driver {report['gpu']['driver']}; "
        f"{source(report)}"
        f"{'' if 'commit' in report else ', commit not recorded'}.\n",
        table(("what", "measured"), rows),
    ]


def _ratio(words: str, before: float, now: float) -> tuple[str, ...]:
    return words, f"{before:.2f}", f"{now:.2f}", f"{now / before:.2f}"


def beside_trials(report: dict[str, Any]) -> list[str]:
    """What a quick judging costs besides its trials, at two commits, where no GPU is needed to know."""
    called, built = report["commands"]["summary"], report["builds"]["summary"]
    rows = [
        _ratio(words, found["before"][was][how], found["now"][now][how])
        for words, found, was, now, how in (
            ("`judge` command, processor time, median", called, "cpu", "cpu", "median"),
            ("`judge` command, by the clock, least", called, "seconds", "seconds", "least"),
            ("builds, one after the other, median", built, "in turn", "in turn", "median"),
            ("builds, as a judge makes them, median", built, "in turn", "beside", "median"),
            ("builds, as a judge makes them, least", built, "in turn", "beside", "least"),
        )
    ]
    calls, candidates = len(report["commands"]["rows"]["now"]), len(report["builds"]["rows"]["now"])
    load = report["taken"]["machine"]["load_average"]
    return [
        f"\n## Besides the trials, without a GPU\n\n{machines({'taken': {'all': report['taken']}})}, shared with other "
        f"work (load average {load:.0f}); "
        f"{source(report['taken'])}, before: {report['before']}.\n",
        f"Both commits in turn: {calls} commands with a server that answers at once, and builds of {candidates} CUDA "
        "kernels for two public and three hidden workloads, three seconds after the builds before them.\n",
        "A judge used to build public workloads and then hidden ones. Where it has four cores or more it builds them "
        "side by side now. On a machine as busy as this, builders of the commit before were seldom ready in time.\n",
        table(("seconds", "before", "now", "now / before"), rows),
        "\nProcessor seconds of a compile with one header of CUDA, where it is read or all five were precompiled; "
        "`ready`: of a builder's start, with its precompiling.\n",
        table(("header", "read", "precompiled"), _headers(report["headers"])),
    ]


def _headers(found: dict[str, dict[str, float]]) -> list[tuple[str, str, str]]:
    return [(name, f"{seconds:.2f}", f"{found['precompiled'][name]:.2f}") for name, seconds in found["read"].items()]
