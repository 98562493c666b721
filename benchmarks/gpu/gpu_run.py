"""What the sections of judge_gpu.py share: tasks, settings and candidates to judge, and verdicts as plain data."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.shared.common import RANK, write_task

from kernelwright.devices.names import Device
from kernelwright.judge.baseline_names import TRAINING
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Verdict, WorkloadResult
from kernelwright.tasks.resolve import resolve

ROOT = Path(__file__).parents[2]
KERNELS, EXPLOITS = ROOT / "tests" / "kernels_cuda", ROOT / "tests" / "gpu" / "exploits"
EXAMPLE = KERNELS / "rmsnorm_vector"
CUDA = Device("cuda", 0)


@dataclass(frozen=True)
class Run:
    """What a section is given: a folder of its own, until when it may go on, the command line, what it found the last
    time, and a way to write down what it has so far."""

    folder: Path
    until: float
    arguments: argparse.Namespace
    before: dict[str, Any]
    keep: Callable[[Any], None]

    @property
    def over(self) -> bool:
        return time.monotonic() > self.until

    def task(self, sizes: tuple[tuple[int, int], ...], name: str = "rows_task.py") -> str:
        return write_task(self.folder / name, sizes, rows=(30, 1200), cols=(100, 5000))


def settings(*baselines: str, effort: Sampling = RANK, safety: bool = False, public_only: bool = False) -> Settings:
    return Settings(baselines=baselines, effort=effort, safety=safety, public_only=public_only, device=CUDA)


def baselines_of(reference: str, named: Sequence[str]) -> tuple[str, ...]:
    """Those that were named; else all, and a derived backward is held against what training would do, too."""
    if named:
        return tuple(named)
    trained = resolve(reference, "cuda").pullback is not None
    return ("eager", "compile-best", *((TRAINING,) if trained else ()))


def in_short(verdict: Verdict) -> dict[str, Any]:
    return {
        "name": verdict.name,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "evidence": None if verdict.evidence is None else verdict.evidence.model_dump(),
        "library": list(verdict.library),
        "seconds": verdict.seconds,
        "stages": verdict.stage_seconds,
        "workloads": [row(result) for result in verdict.workloads],
        "conditions": verdict.conditions.model_dump(),
    }


def row(result: WorkloadResult) -> dict[str, Any]:
    return {
        "workload": result.label,
        "hidden": result.hidden,
        "speed": result.speed,
        "trials": result.trials,
        "us": _us(result.seconds),
        "outside_us": _us(result.outside_seconds),
        "baselines_us": {entry.baseline: _us(entry.seconds) for entry in result.baselines},
        "speedup": {entry.baseline: entry.speedup.model_dump() for entry in result.baselines},
        "aa": None if result.aa is None else result.aa.model_dump(),
        "bound": None if result.bound is None else result.bound.model_dump(),
        "kernels": [use.model_dump() for use in result.kernels],
    }


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6
