"""Why a candidate has no program: its plan or its kernels are at fault, and these lines say where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuBuildFailure:
    lines: tuple[str, ...]
    timed_out: bool = False
