"""What claims_gpu.py judged, row by row: which rows were judged at all, which win, and where."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.shared.kept import folder_of, unpacked
from benchmarks.shared.record import RESULTS, load

from kernelwright.devices.peaks_nvidia import GpuPeaks
from kernelwright.judge import certificate
from kernelwright.judge.baseline_names import TRAINING
from kernelwright.judge.gpu.limits import bound
from kernelwright.judge.verdict import BoundValue, Outcome, SpeedStatus, Verdict, WorkloadResult
from kernelwright.tasks.cost import Cost
from kernelwright.tasks.resolve import parse

COMPILED = "compile-best"


@dataclass(frozen=True)
class Claim:
    """A row that was wanted. Without verdicts it was not judged, or not accepted, and `why` says so."""

    ref: str
    judged: bool
    commit: str
    why: str = ""
    public: Verdict | None = None
    hidden: Verdict | None = None
    rough: float | None = None  # microseconds

    @property
    def accepted(self) -> bool:
        return self.public is not None and self.hidden is not None

    @property
    def result(self) -> WorkloadResult:
        assert self.public is not None
        return self.public.workloads[0]

    @property
    def won(self) -> bool:
        """Faster than the best baseline on the public size."""
        return self.accepted and self.result.speed is SpeedStatus.measured and low(self.result, "best") > 1

    @property
    def least_hidden(self) -> float:
        return min((low(result, "eager") for result in self._hidden()), default=math.nan)

    @property
    def doubts(self) -> list[str]:
        """What keeps it from being faster than eager on hidden sizes."""
        unsure = {str(result.speed) for result in self._hidden() if result.speed is not SpeedStatus.measured}
        return [*(["slower"] if not self.least_hidden > 1 else []), *sorted(unsure)]

    @property
    def lenient(self) -> bool:
        """A backward that was not held against what training would do."""
        return parse(self.ref).backward and self.public is not None and TRAINING not in baselines(self.public)

    def _hidden(self) -> list[WorkloadResult]:
        assert self.hidden is not None
        return [result for result in self.hidden.workloads if result.hidden]


def read_claims(report: dict[str, Any], roughly: dict[str, Any], kept: Path, wanted: tuple[str, ...]) -> list[Claim]:
    """Of all rows that were wanted, in their order, and then of others that were judged."""
    return [_read(ref, report, roughly, kept) for ref in dict.fromkeys((*wanted, *report["rows"]))]


def _read(ref: str, report: dict[str, Any], roughly: dict[str, Any], kept: Path) -> Claim:
    row = report["rows"].get(ref)
    if row is None:
        timed = roughly.get("rows", {}).get(ref, {})
        times = [entry["us"] for entry in timed.get("rough_us", {}).get("times", [])]
        commit = timed.get("commit", roughly.get("commit", "unknown")) if times else "-"
        return Claim(ref, judged=False, commit=commit, rough=min(times, default=None))
    why = _refused(row)
    if why:
        return Claim(ref, judged=True, commit=row["commit"], why=why)
    folder = unpacked(kept) / folder_of(ref)
    paths = [folder / name for name in row["certificates"]] if "certificates" in row else sorted(folder.glob("*.json"))
    issued = [certificate.read(path).verdict for path in paths]
    public = next((verdict for verdict in issued if len(baselines(verdict)) > 1), None)
    hidden = next((verdict for verdict in issued if len(baselines(verdict)) == 1), None)
    if public is None or hidden is None or {public.verdict, hidden.verdict} != {Outcome.accepted}:
        return Claim(ref, judged=True, commit=row["commit"], why="no certificates")
    return Claim(ref, judged=True, commit=row["commit"], public=public, hidden=hidden)


def _refused(row: dict[str, Any]) -> str:
    """Why a row claims nothing. Certificates of an earlier claim may still be among those that are kept."""
    if "undecided" in row:
        return "undecided"
    verdicts = [row[name] for name in ("public", "hidden") if name in row]
    return next((f"{one['verdict']} ({one['reason']})" for one in verdicts if one["verdict"] != Outcome.accepted), "")


def bound_us(cost: Cost) -> float:
    """At the peaks in gpu_launcher.json, as the judge goes by today: what was judged before has bounds of before."""
    peaks = GpuPeaks(**load(RESULTS / "gpu_launcher.json")["peaks"])
    return 1e6 * bound(cost, "float32", peaks)


def needed(value: BoundValue) -> Cost:
    return Cost(value.read_bytes, value.moved_bytes - value.read_bytes, value.operations)


def baselines(verdict: Verdict) -> set[str]:
    return {entry.baseline for result in verdict.workloads for entry in result.baselines}


def low(result: WorkloadResult, baseline: str) -> float:
    if baseline == "best":
        best = result.best_baseline
        return best.speedup.low if best else math.nan
    return next((one.speedup.low for one in result.baselines if one.baseline == baseline), math.nan)


def counted(every: list[Claim]) -> list[str]:
    """How many of all rows, and what became of the others. Rows go by their task's name where only one has it."""
    total = len(every)
    won = [one for one in every if one.won]
    lost = [one for one in won if one.doubts]
    unsure = [one.ref for one in every if one.accepted and one.result.speed is not SpeedStatus.measured]
    slower = [one.ref for one in every if one.accepted and not one.won and one.ref not in unsure]
    refused = [one.ref for one in every if one.judged and not one.accepted]
    missing = [one for one in every if not one.judged]
    rough = sum(one.rough is not None for one in missing)
    sentences = [f"Faster than the best baseline on the public size: {len(won)} of {total} rows."]
    sentence = f"Of these also faster than eager on hidden sizes: {len(won) - len(lost)}"
    sentences.append(sentence + (f" (not {_names((one.ref for one in lost), every)})." if lost else "."))
    for names, what in ((slower, "No faster"), (unsure, "Speed undecided"), (refused, "No claim")):
        if names:
            sentences.append(f"{what}: {len(names)} ({_names(names, every)}).")
    if missing:
        sentences.append(f"Not judged: {len(missing)} ({_names((one.ref for one in missing), every)}).")
        sentences.append(f"Of these with a rough time, which claims nothing: {rough}.")
    return sentences


def _names(refs: Iterable[str], every: list[Claim]) -> str:
    tasks = Counter(one.ref.partition("@")[0] for one in every)
    names = ((ref, ref.partition("@")[0]) for ref in refs)
    return ", ".join(f"`{task if tasks[task] == 1 else ref}`" for ref, task in names)
