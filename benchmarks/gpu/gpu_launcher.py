"""What the GPU launcher costs and how well its clocks agree. Writes benchmarks/results/gpu_launcher.json.

    python benchmarks/gpu/gpu_launcher.py [--out FILE]

Start-up, one trial, an empty call on both clocks, spins of known length on both clocks, a kernel measured in fresh
processes, builds with and without a warm compiler, and the device's measured peaks.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.shared.record import RESULTS, gpu_facts, provenance, save
from tests.gpu.harness import KERNELS, Bench, signature, with_descriptors

from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.cuda.source import read_cuda_candidate
from kernelwright.contracts.cuda.toolchain.build import build_cuda
from kernelwright.contracts.cuda.toolchain.builder import BuilderPool
from kernelwright.contracts.model import GpuBuild
from kernelwright.devices.nvidia import probe, state
from kernelwright.devices.peaks_nvidia import gpu_peaks
from kernelwright.judge.gpu.client import Timing
from kernelwright.judge.gpu.clocks import disagreement
from kernelwright.judge.timing.statistics import against_itself, median

SPINS = (2, 5, 10, 20, 50, 200, 1000)
SPIN = """
typedef unsigned long long u64;
extern "C" __global__ void spin(float* out, int microseconds, int count) {
  u64 begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < 1000ull * microseconds);
  for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = 0.f;
}
/* plan.py
import kw


def plan(x, weight, eps, out):
    return kw.plan(kw.launch("spin", 1, 32, out, kw.i32(MICROSECONDS), kw.i32(out.numel())))
*/
"""


def quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    picks = {"low": 0, "median": len(ordered) // 2, "p90": len(ordered) * 9 // 10, "high": -1}
    return {name: round(ordered[at] * 1e6, 3) for name, at in picks.items()}


def both(timings: list[Timing]) -> dict[str, dict[str, float]]:
    return {
        "device_us": quantiles([timing.device for timing in timings]),
        "outside_us": quantiles([timing.outside for timing in timings]),
    }


def start_up(bench: Bench) -> dict[str, object]:
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        with bench.launcher() as launcher:
            launcher.well()
            seconds.append(time.perf_counter() - begin)
    return {"launcher_up_s": [round(value, 3) for value in seconds]}


def trials(bench: Bench) -> dict[str, object]:
    with bench.launcher() as launcher:
        launcher.well()
        timings, begin = [], time.perf_counter()
        for _ in range(200):
            timings.append(launcher.trial(1, 5.0, empty=True))
        each = (time.perf_counter() - begin) / 200
    return {"empty_trial_ms": round(each * 1e3, 3), "empty": both(timings)}


def agreement(bench: Bench) -> dict[str, object]:
    rows = {}
    for spin in SPINS:
        candidate = Candidate("cuda", SPIN.replace("MICROSECONDS", str(spin)))
        timings = measured(bench, candidate, (64, 128), 50)
        different = disagreement(timings, bench.empty)
        rows[spin] = {**both(timings), "disagreement": different.describe() if different else None}
    return {"spins": rows}


def measured(bench: Bench, candidate: Candidate, size: tuple[int, int], count: int) -> list[Timing]:
    made = build_cuda(candidate, (signature(*size),), bench.target, bench.pool)
    assert isinstance(made, GpuBuild), made
    oracle, built = bench.oracle(size), made.built[0]
    with bench.launcher() as launcher:
        with_descriptors(oracle, partial(launcher.open, built.program, built.modules))
        timings = []
        for _ in range(count):
            oracle.load()
            timings.append(launcher.trial(oracle.word, 5.0))
    return timings


def repeats(bench: Bench) -> dict[str, object]:
    """One kernel in ten fresh processes, at sizes from tiny to large: medians, and each process against itself."""
    found = {}
    candidate = read_cuda_candidate(KERNELS / "rmsnorm_vector")
    for size in ((64, 128), (1024, 4096), (16384, 4096)):
        runs = [[timing.device for timing in measured(bench, candidate, size, 40)] for _ in range(10)]
        own = [against_itself(run) for run in runs]
        found["x".join(map(str, size))] = {
            "medians_us": [round(median(run) * 1e6, 3) for run in runs],
            "against_itself": [(round(i.low, 4), round(i.high, 4)) for i in own],
        }
    return {"repeats": found}


def builds(bench: Bench) -> dict[str, object]:
    """The same sources with a changed comment, so that no cache helps."""
    found = {}
    for warm in (False, True):
        pool = BuilderPool(bench.target.architecture, spare=1 if warm else 0)
        for name in ("rmsnorm_vector", "rmsnorm_cooperative", "rmsnorm_cub"):
            pool.refill()
            if warm:
                time.sleep(4)
            source = f"// {time.time_ns()}\n{read_cuda_candidate(KERNELS / name).source}"
            made = build_cuda(Candidate("cuda", source), (signature(64, 128),), bench.target, pool)
            assert isinstance(made, GpuBuild), made
            found[f"{name} {'warm' if warm else 'cold'}"] = round(made.seconds, 3)
        pool.close()
    return {"build_s": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_launcher.json")
    options = parser.parse_args()
    bench, gpu = Bench(), probe()
    result: dict[str, object] = {**provenance(gpu), "gpu": gpu_facts(gpu), "state": asdict(state(gpu))}
    result["peaks"] = asdict(gpu_peaks(gpu))
    for part in (start_up, trials, agreement, repeats, builds):
        begin = time.perf_counter()
        result |= part(bench)
        print(f"{part.__name__}: {time.perf_counter() - begin:.1f} s", flush=True)
    bench.close()
    save(options.out, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
