"""Why eager PyTorch's time for linear and ReLU depends on how it is written: `python benchmarks/gpu/eager_linear.py`.

The task's reference multiplies and then adds the bias; `F.linear` hands the bias to the product. Each is timed as other
programs do: the L2 cache filled and read before every call, the queue filled beforehand, device events, median of 50.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.shared.record import RESULTS, provenance, save  # noqa: E402

from kernelwright.devices import nvidia  # noqa: E402
from kernelwright.judge.oracle.flags import strict_flags  # noqa: E402

ROWS, FEATURES, UNITS = 64, 1600, 128
CALLS = 50
FLUSHED = 256 << 20
BEHIND = 2_000_000  # cycles that the device spins while calls are queued


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("eager_linear.py: needs an NVIDIA GPU")
    came = provenance(nvidia.probe(0))
    x, weight = torch.randn(ROWS, FEATURES, device="cuda"), torch.randn(UNITS, FEATURES, device="cuda")
    bias = torch.randn(UNITS, device="cuda")
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "relu(x @ weight.T + bias)": lambda: torch.relu(x @ weight.T + bias),
        "relu(F.linear(x, weight, bias))": lambda: torch.relu(F.linear(x, weight, bias)),
        "F.linear(x, weight, bias)": lambda: F.linear(x, weight, bias),
        "x @ weight.T": lambda: x @ weight.T,
    }
    found = {}
    for library in ("default", "cublas", "cublaslt"):
        torch.backends.cuda.preferred_blas_library(library)
        with torch.no_grad(), strict_flags():
            found[library] = {name: {"us": timed(way), "kernels": kernels(way)} for name, way in ways.items()}
    save(RESULTS / "eager_linear.json", {**came, "rows": ROWS, "features": FEATURES, "units": UNITS, "found": found})
    for library, times in found.items():
        for name, one in times.items():
            print(f"{library:9} {name:34} {one['us']:6.2f} us  {one['kernels']}", flush=True)


def timed(way: Callable[[], torch.Tensor]) -> float:
    """In microseconds. Calls wait behind a spin, so that none waits for the host."""
    way()
    room = torch.empty(FLUSHED // 4, device="cuda")
    times = []
    for _ in range(CALLS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(BEHIND)
        room.fill_(1.0)
        room.sum()
        begin.record()
        way()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return median(times)


def kernels(way: Callable[[], torch.Tensor]) -> list[str]:
    """What one call launches."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        way()
        torch.cuda.synchronize()
    return [event.name[:90] for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]


if __name__ == "__main__":
    main()
