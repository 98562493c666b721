"""What this CPU reaches at most, measured once: bytes per second of memory, operations per second of a product.

The figures are kept in the cache by CPU model, number of threads, and whether streaming stores could be measured.
They are best times of a few short runs, since whatever disturbs a measurement makes it slower, never faster.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelwright.devices.cpu import probe
from kernelwright.devices.lock import measuring
from kernelwright.devices.streaming import streaming_copy, streams
from kernelwright.paths import cache_dir, write_whole

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
    path = _kept(model, threads)
    found = _read(path)
    if found is None:
        with measuring():
            found = measure(model, threads)
        write_whole(path, json.dumps({"version": VERSION, **asdict(found)}).encode())
    return found


def cached_peaks(model: str) -> CpuPeaks | None:
    """What was measured before with as many threads as there are cores, if it was. Imports nothing."""
    return _read(_kept(model, len(probe().cores)))


def measure(model: str, threads: int) -> CpuPeaks:
    return CpuPeaks(model, threads, _bandwidth(threads), _products("float32"), _products("float64"))


def _kept(model: str, threads: int) -> Path:
    name = hashlib.sha256(f"{model} {threads} {streams()}".encode()).hexdigest()[:16]
    return cache_dir("peaks") / f"cpu-{name}.json"


def _read(path: Path) -> CpuPeaks | None:
    """A file that is missing, damaged or of another version is no figure: measure again."""
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
    return max(plain, streaming_copy(COPIED_BYTES, threads)) if streams() else plain


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
