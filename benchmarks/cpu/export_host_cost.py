"""What a call of a loaded kernel costs on the host: raw, as a function, as an operator, with gradients.

    python benchmarks/cpu/export_host_cost.py [--rows 8] [--cols 64] [--save]

All ways are timed in turn on a tensor so small that hardly anything is computed, so ratios hold on a busy machine where
times do not. The kernel is one of tests/kernels with a verdict that is made up: nothing is said about its speed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.shared.record import RESULTS, provenance, save
from tests.export import making

from kernelwright.export.loading import load_proved
from kernelwright.export.standalone.benchmark import in_turn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--cols", type=int, default=64)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/export_host_cost.json")
    given = parser.parse_args()
    where = provenance()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        kernel = load_proved(making.rmsnorm(Path(folder)), allow=("sizes",))
    x, weight, eps = torch.randn(given.rows, given.cols), torch.randn(given.cols), 1e-6
    leaf, parameter = x.clone().requires_grad_(), torch.nn.Parameter(weight.clone())
    kernel.warm_up(x, weight, eps)
    chosen = kernel.forward_direction.choose((x, weight, eps))
    if isinstance(chosen, str):
        raise SystemExit(f"the kernel is not used: {chosen}")
    with torch.no_grad():
        plain = {
            "torch.empty_like": lambda: torch.empty_like(x),
            "raw library": lambda: chosen.run((x, weight, eps)),
            "function": lambda: kernel(x, weight, eps),
            "operator": lambda: kernel.operator(x, weight, eps),
            "F.rms_norm": lambda: F.rms_norm(x, (given.cols,), weight, eps),
            "reference": lambda: kernel.reference(x, weight, eps),
        }
        times = dict(zip(plain, in_turn(list(plain.values())), strict=True))
    graded = {
        "function, with gradient": lambda: kernel(leaf, parameter, eps),
        "operator, with gradient": lambda: kernel.operator(leaf, parameter, eps),
        "F.rms_norm, with gradient": lambda: F.rms_norm(leaf, (given.cols,), parameter, eps),
        "reference, with gradient": lambda: kernel.reference(leaf, parameter, eps),
    }
    times |= dict(zip(graded, in_turn(list(graded.values())), strict=True))
    ratios = {way: seconds / times[_fused(way)] for way, seconds in times.items()}
    for way, seconds in times.items():
        print(f"{way:28} {seconds * 1e6:8.2f} µs  {ratios[way]:5.2f} of {_fused(way)}")
    if given.save:
        microseconds = {way: round(seconds * 1e6, 2) for way, seconds in times.items()}
        rounded = {way: round(ratio, 2) for way, ratio in ratios.items()}
        save(RESULTS / "export_host_cost.json", {**where, "microseconds": microseconds, "of_fused": rounded})


def _fused(way: str) -> str:
    return "F.rms_norm, with gradient" if "gradient" in way else "F.rms_norm"


if __name__ == "__main__":
    main()
