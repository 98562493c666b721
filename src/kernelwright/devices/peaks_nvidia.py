"""What a GPU reaches at most, measured once per GPU and driver: bandwidth, products in every format, launch latency.

Products are of random values, because zeros run at higher clocks. The figures are best times of a few runs, since
whatever disturbs a measurement makes it slower, never faster. Bytes are moved as in a trial: by one call, from caches
that hold clean lines of something else, so that what is written last may stay in them; what launching takes is not
counted. An unknown GPU is measured, never guessed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernelwright.devices.lock import measuring
from kernelwright.devices.nvidia import Gpu
from kernelwright.paths import cache_dir, write_whole

VERSION = 2
BYTES = (1 << 28, 1 << 30)
SPARE_BYTES = 1 << 29  # more than any cache holds
SIDE = 8192
# So many products of TF32 make one of float32: a factor is the sum of two, and their small parts are not multiplied.
TF32_PRODUCTS = 3
REPEATS = 9
SPIN_CYCLES = 400_000


@dataclass(frozen=True)
class GpuPeaks:
    """`copy` counts bytes read and written, `read` bytes read; products count two operations per term.

    `launch` is what two events read around a kernel that does nothing. `float8` is None where there is no such unit.
    """

    name: str
    driver: str
    copy: float
    read: float
    float64: float
    float32: float
    tf32: float
    float16: float
    bfloat16: float
    float8: float | None
    launch: float

    def operations(self, dtype: str) -> float:
        """The best rate of products that are as precise as a task of this dtype asks for. TF32 is not float32's, but
        several of its products make one that is."""
        rates = {"float64": self.float64, "float16": self.float16, "bfloat16": self.bfloat16}
        return rates.get(dtype, max(self.float32, self.tf32 / TF32_PRODUCTS))


def gpu_peaks(gpu: Gpu) -> GpuPeaks:
    """From the cache, or measured now, which takes a few seconds and the device's lock. Imports torch."""
    found = cached_peaks(gpu)
    if found is None:
        with measuring(gpu.device):
            found = measure(gpu)
        write_whole(_kept(gpu), json.dumps({"version": VERSION, **asdict(found)}).encode())
    return found


def cached_peaks(gpu: Gpu) -> GpuPeaks | None:
    """What was measured before, if it was."""
    return _read(_kept(gpu))


def measure(gpu: Gpu) -> GpuPeaks:
    import torch

    with torch.cuda.device(gpu.index), torch.no_grad():
        launch = _launch(torch)
        copy, read = _bandwidth(torch, launch)
        float64 = _products(torch, torch.float64, tf32=False, side=SIDE // 2)
        return GpuPeaks(
            name=gpu.name,
            driver=gpu.driver,
            copy=copy,
            read=read,
            float64=float64,
            float32=_products(torch, torch.float32, tf32=False, side=SIDE // 2),
            tf32=_products(torch, torch.float32, tf32=True),
            float16=_products(torch, torch.float16, tf32=False),
            bfloat16=_products(torch, torch.bfloat16, tf32=False),
            float8=_float8(torch) if gpu.capability >= (8, 9) else None,
            launch=launch,
        )


def _kept(gpu: Gpu) -> Path:
    name = hashlib.sha256(f"{gpu.uuid} {gpu.driver}".encode()).hexdigest()[:16]
    return cache_dir("peaks") / f"cuda-{name}.json"


def _read(path: Path) -> GpuPeaks | None:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw.pop("version") != VERSION:
            return None
        return GpuPeaks(**raw)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _best(torch: Any, work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """The shortest of a few runs between events, with the queue held while it is filled."""
    for _ in range(3):
        work()
    seconds = []
    for _ in range(REPEATS):
        before()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(SPIN_CYCLES)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3)
    return float(min(seconds))


def _launch(torch: Any) -> float:
    return _best(torch, lambda: torch.cuda._sleep(0))


def _bandwidth(torch: Any, launch: float) -> tuple[float, float]:
    """Of copies and of reading, each in bytes a second."""
    spare = torch.zeros(SPARE_BYTES // 4, device="cuda")
    copies, reads = [], []
    for size in BYTES:
        one = torch.randn(size // 4, device="cuda")
        other = torch.empty_like(one)
        for copy in (partial(other.copy_, one), partial(torch.mul, one, 1.0, out=other)):
            copies.append(2 * size / (_best(torch, copy, spare.sum) - launch))
        reads.append(size / (_best(torch, one.sum, spare.sum) - launch))
    return max(copies), max(reads)


def _products(torch: Any, dtype: Any, *, tf32: bool, side: int = SIDE) -> float:
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        one, other = (torch.randn(side, side, device="cuda").to(dtype) for _ in range(2))
        return 2.0 * side**3 / _best(torch, lambda: one @ other)
    finally:
        torch.set_float32_matmul_precision(precision)


def _float8(torch: Any) -> float | None:
    scale = torch.ones((), device="cuda")
    one, other = (torch.randn(SIDE, SIDE, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))

    def product() -> object:
        return torch._scaled_mm(one, other.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)

    try:
        return 2.0 * SIDE**3 / _best(torch, product)
    except (RuntimeError, AttributeError):  # a torch without this product
        return None
