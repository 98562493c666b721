"""How often is an honest kernel rejected? Judges many of them in full, again and again, each time on other values.

    python benchmarks/shared/honest_judgings.py --device cpu --judgings 600 --seconds 1800 --jobs 2
    python benchmarks/shared/honest_judgings.py --device cuda --corpus cuda.json --list    # needs no GPU
    python benchmarks/shared/honest_judgings.py --device cuda --corpus cuda.json --judgings 400 --seconds 300

Every check is on (the domain, the errors, and with --safety the sanitizers); times are hardly measured, and there is no
baseline. A round judges every kernel twice under a key of its own, task after task in an order drawn for it. Each
judging is written to OUTPUT's folder as it ends, and a run that is started again with the same output goes on from
there. What was not accepted is written with all of its evidence.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.shared.common import temporary_home  # noqa: E402
from benchmarks.shared.honest_corpus import HonestKernel, kept_corpus  # noqa: E402
from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402
from benchmarks.shared.streams import side_by_side  # noqa: E402

from kernelwright.devices.names import device_named  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.judge.controller import Judge  # noqa: E402
from kernelwright.judge.settings import Settings  # noqa: E402
from kernelwright.judge.timing.measure import Sampling  # noqa: E402
from kernelwright.judge.verdict import Outcome, Verdict  # noqa: E402

EFFORT = Sampling(least=3, most=3)


def judge_rounds(options: argparse.Namespace, lines: Path) -> None:
    """Rounds over all kernels, until there are enough judgings or the time is up; a line for each judging."""
    device = device_named(options.device)
    kernels = [one for one in kept_corpus(options.corpus, device, options.variants) if options.only in one.name]
    begin, done = time.monotonic(), 0
    with lines.open("a", encoding="utf-8") as file:
        while done < options.judgings and time.monotonic() - begin < options.seconds:
            key = os.urandom(32)
            order = in_turn(kernels, random.Random(key))
            settings = Settings(baselines=(), effort=EFFORT, key=key, device=device, safety=options.safety)
            with Judge(settings) as judge:
                for one in order:
                    if done >= options.judgings or time.monotonic() - begin >= options.seconds:
                        break
                    record = judged(judge, one)
                    file.write(json.dumps(record) + "\n")
                    file.flush()
                    done += 1
                    print(f"{done:5} {record['seconds']:6.1f} s  {record['outcome']:9} {one.name}", flush=True)


def in_turn(kernels: list[HonestKernel], chance: random.Random) -> list[HonestKernel]:
    """Task after task in random order, so that a task is opened once in a round; every kernel of it twice."""
    tasks = sorted({one.task for one in kernels})
    chance.shuffle(tasks)
    order: list[HonestKernel] = []
    for task in tasks:
        of_task = [one for one in kernels if one.task == task] * 2
        chance.shuffle(of_task)
        order += of_task
    return order


def judged(judge: Judge, one: HonestKernel) -> dict[str, Any]:
    """What became of one judging. A task or a machine that cannot be judged is told as such and is not a rejection."""
    begin = time.monotonic()
    record: dict[str, Any] = {"task": Path(one.task).name, "kernel": one.name, "candidate": one.candidate.id}
    try:
        verdict = judge.judge(one.task, one.candidate)
    except KernelwrightError as error:
        return {**record, "outcome": "failed", "error": str(error), "seconds": time.monotonic() - begin}
    record |= {"outcome": str(verdict.verdict), "seconds": time.monotonic() - begin, **_seen(verdict)}
    if verdict.verdict is not Outcome.accepted:
        record["verdict"] = json.loads(verdict.model_dump_json())
        record["source"] = one.candidate.source
    return record


def _seen(verdict: Verdict) -> dict[str, Any]:
    """Of an accepted judging: the dtypes, calls and points that were looked at."""
    told: dict[str, Any] = json.loads(verdict.model_dump_json())
    return {
        "dtypes": sorted({result.dtype for result in verdict.workloads}),
        "calls": sum(result.trials for result in verdict.workloads),
        "domain": told.get("domain"),
        "errors": told.get("errors", []),
    }


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    outcomes = Counter(record["outcome"] for record in records)
    kernels: dict[str, Counter[str]] = {}
    for record in records:
        kernels.setdefault(record["kernel"], Counter())[record["outcome"]] += 1
    seconds = sorted(record["seconds"] for record in records) or [0.0]
    points = [record["domain"] for record in records if record.get("domain")]
    return {
        "judgings": len(records),
        "outcomes": dict(outcomes),
        "kernels": len(kernels),
        "distinct_sources": len({record["candidate"] for record in records}),
        "tasks": len({record["task"] for record in records}),
        "dtypes": sorted({dtype for record in records for dtype in record.get("dtypes", ())}),
        "checked_calls": sum(record.get("calls", 0) for record in records),
        "with_domain_check": len(points),
        "domain_calls": sum(one.get("calls", 0) for one in points),
        "seconds_median": seconds[len(seconds) // 2],
        "seconds_total": sum(seconds),
        "by_kernel": {name: dict(found) for name, found in sorted(kernels.items())},
        "not_accepted": [record for record in records if record["outcome"] != "accepted"],
    }


def shown(report: dict[str, Any]) -> Iterator[str]:
    """The table for people: totals, and every kernel that was not accepted every time."""
    for name in ("judgings", "outcomes", "kernels", "distinct_sources", "tasks", "dtypes", "with_domain_check"):
        yield f"{name:18} {report[name]}"
    yield f"{'median':18} {report['seconds_median']:.2f} s"
    for record in report["not_accepted"]:
        verdict = record.get("verdict", {})
        why = record.get("error") or f"{verdict.get('reason')} {json.dumps(verdict.get('evidence'))}"
        yield f"{record['outcome']}: {record['kernel']}: {why[:300]}"


def records_beside(output: Path) -> list[dict[str, Any]]:
    found = sorted(output.parent.glob(f"{output.stem}.*.jsonl"))
    return [json.loads(line) for path in found for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--judgings", type=int, default=600, help="so many more than there are already")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no other judging after so long")
    parser.add_argument("--jobs", type=int, default=1, help="how many judge side by side, each with its own home")
    parser.add_argument("--variants", type=int, default=3, help="kernels by `templates` for each task")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--safety", action="store_true", help="with sanitizers, which take most of the time")
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/honest_judgings_DEVICE.json")
    parser.add_argument("--corpus", type=Path, help="a file to keep the kernels in; default: beside the output")
    parser.add_argument("--list", action="store_true", help="name the kernels and end")
    parser.add_argument("--stream", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    kind = device_named(options.device).kind
    output = (options.output or RESULTS / f"honest_judgings_{kind}.json").resolve()
    options.corpus = (options.corpus or output.with_suffix(".corpus")).resolve()
    if options.stream is None:
        kernels = kept_corpus(options.corpus, device_named(options.device), options.variants)
        print(f"{len(kernels)} kernels for {len({one.task for one in kernels})} tasks", flush=True)
    if options.list:
        print("\n".join(f"{Path(one.task).name:32} {one.name}" for one in kernels))
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    came = provenance()
    if options.stream is not None or options.jobs == 1:  # one alone takes all cores
        with temporary_home():
            judge_rounds(options, output.parent / f"{output.stem}.{options.stream or 0}.jsonl")
        if options.stream is not None:
            save(options.write, {})
            return
    else:
        each = -(-options.judgings // options.jobs)
        words = [f"--device={options.device}", f"--judgings={each}", f"--seconds={options.seconds}"]
        words += [f"--variants={options.variants}", f"--only={options.only}", f"--output={output}"]
        words += [f"--corpus={options.corpus}", *(["--safety"] if options.safety else [])]
        side_by_side(__file__, options.jobs, words)
    report = {**came, "before": load(output).get("judgings", 0), **summary(records_beside(output))}
    save(output, report)
    print("\n".join(shown(report)))


if __name__ == "__main__":
    main()
