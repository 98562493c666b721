"""The CPU as a device: what it is, and which cores a measurement may use."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cpu:
    model: str
    architecture: str
    cores: tuple[int, ...]
    memory_bytes: int


def probe() -> Cpu:
    return Cpu(
        model=_model(),
        architecture=platform.machine(),
        cores=tuple(sorted(os.sched_getaffinity(0))),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def _model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.split(":", 1)[1].strip()
    except OSError:
        return platform.processor() or "unknown"
    return platform.processor() or "unknown"
