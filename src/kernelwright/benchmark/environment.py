"""Where a benchmark runs: device, software, and which judge it is."""

from __future__ import annotations

import os
import platform
import time

from kernelwright.benchmark.results import BenchmarkEnvironment
from kernelwright.devices import cpu, nvidia
from kernelwright.devices.names import Device
from kernelwright.judge.keys import judge_code, version_of
from kernelwright.version import __version__


def environment(device: Device, threads: int) -> BenchmarkEnvironment:
    """As of now. `threads` 0: as many as there are cores to use."""
    here = cpu.probe()
    gpu = nvidia.probe(device.index) if device.kind == "cuda" else None
    return BenchmarkEnvironment(
        judge_version=__version__,
        judge_code=judge_code(),
        device=f"cpu: {here.model}" if gpu is None else f"cuda: {gpu.name}",
        threads=(threads or len(here.cores)) if gpu is None else 0,
        driver=None if gpu is None else gpu.driver,
        torch=version_of("torch"),
        python=platform.python_version(),
        kernel=platform.release(),
        cpu=here.model,
        cores=len(here.cores),
        load=round(os.getloadavg()[0], 2),
        at=round(time.time(), 3),
    )
