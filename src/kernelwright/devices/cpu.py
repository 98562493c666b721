"""The CPU as a device: what it is, which cores a measurement may use, and what it reaches at most.

Peaks are measured once: bytes per second of memory, operations per second of a product. They are kept in the cache by
CPU model, number of threads, and whether streaming stores could be measured. They are best times of a few short runs,
since whatever disturbs a measurement makes it slower, never faster.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelwright.devices.compiler import compiled, compiler
from kernelwright.devices.lock import measuring
from kernelwright.errors import CannotDecide
from kernelwright.paths import cache_dir, write_whole


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


def available_memory(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that a new process may have now: what other programs leave, within the limit of a container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        free = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        free = total
    with suppress(OSError, ValueError):  # no such file, or "max"
        free = min(free, int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return max(0, min(free, total))


def _model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.split(":", 1)[1].strip()
    except OSError:
        return platform.processor() or "unknown"
    return platform.processor() or "unknown"


COPY_SOURCE = Path(__file__).parent / "native" / "copy.cpp"
COPY_FLAGS = ("-O2", "-fopenmp")
COPY_REPEATS = 30  # a few milliseconds each; other processes must leave one of them undisturbed
COPY_TIMEOUT = 60.0


def has_streaming_stores() -> bool:
    """Whether it can be measured: on x86-64, with a compiler. ARM's cores need no such stores for the same."""
    if platform.machine() != "x86_64":
        return False
    try:
        compiler()
    except CannotDecide:
        return False
    return True


def streaming_copy(size: int, threads: int) -> float:
    """Bytes per second, read and written, of copying so many bytes."""
    program = compiled(COPY_SOURCE, "copy", COPY_FLAGS)
    command = [str(program), str(size), str(COPY_REPEATS), str(threads)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=COPY_TIMEOUT)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotDecide(f"cannot measure this machine's memory: {error}") from error
    return 2 * size / float(done.stdout)


VERSION = 3
COPIED_BYTES = 128 << 20  # each way; more than the last cache of most CPUs
SIDE = 1024
REPEATS = 7


@dataclass(frozen=True)
class CpuPeaks:
    """`bandwidth` counts bytes read and bytes written. Half-precision products are held against float32's rate."""

    model: str
    threads: int
    bandwidth: float
    float32: float
    float64: float

    def operations(self, dtype: str) -> float:
        return self.float64 if dtype == "float64" else self.float32


def cpu_peaks() -> CpuPeaks:
    """From the cache, or measured now, which takes about a second and the device's lock."""
    import torch

    model, threads = probe().model, torch.get_num_threads()
    path = _peaks_path(model, threads)
    found = _read_peaks(path)
    if found is None:
        with measuring():
            found = measure(model, threads)
        write_whole(path, json.dumps({"version": VERSION, **asdict(found)}).encode())
    return found


def cached_peaks(model: str) -> CpuPeaks | None:
    """What was measured before with as many threads as there are cores, if it was. Imports nothing."""
    return _read_peaks(_peaks_path(model, len(probe().cores)))


def measure(model: str, threads: int) -> CpuPeaks:
    return CpuPeaks(model, threads, _bandwidth(threads), _products("float32"), _products("float64"))


def _peaks_path(model: str, threads: int) -> Path:
    name = hashlib.sha256(f"{model} {threads} {has_streaming_stores()}".encode()).hexdigest()[:16]
    return cache_dir("peaks") / f"cpu-{name}.json"


def _read_peaks(path: Path) -> CpuPeaks | None:
    """A file that is missing, damaged or of another version gives no figure: measure again."""
    try:
        content = json.loads(path.read_bytes())
        if content.pop("version") != VERSION:
            return None
        return CpuPeaks(**content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _bandwidth(threads: int) -> float:
    """Of a copy or of reading alone, whichever is more. A plain copy reads what it overwrites; kernels need not."""
    plain = max(plain_copy(), reading())
    return max(plain, streaming_copy(COPIED_BYTES, threads)) if has_streaming_stores() else plain


def plain_copy() -> float:
    import torch

    source = torch.ones(COPIED_BYTES // 4)
    target = torch.zeros_like(source)
    return 2 * source.nbytes / _best(lambda: target.copy_(source))


def reading() -> float:
    import torch

    source = torch.ones(COPIED_BYTES // 4)
    return source.nbytes / _best(source.sum)


def _products(dtype: str) -> float:
    import torch

    left, right = (torch.ones(SIDE, SIDE, dtype=getattr(torch, dtype)) for _ in range(2))
    return 2 * SIDE**3 / _best(lambda: torch.mm(left, right))


def _best(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
