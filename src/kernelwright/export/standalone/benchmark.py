"""`python -m NAME.benchmark`: the kernel as a user calls it, beside the reference, in turn on the same inputs.

A quick look and not a proof: caches are warm, inputs repeat, and nothing else is kept off the machine. What is proved
is in the certificates.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from .kernel import FallbackWarning, LoadedKernel
from .selftest import arguments, called, workloads

ROUNDS, SECONDS = 21, 0.02


def main(kernel: LoadedKernel) -> int:
    warnings.simplefilter("ignore", FallbackWarning)
    print("dtype, sizes: kernel, reference, ratio (medians)")
    for variant, sizes in workloads(kernel):
        values = arguments(kernel, variant, sizes)
        given = called(kernel, values)
        kernel.warm_up(*given)
        reason = kernel.why_not(*given)
        with torch.no_grad():
            ours, theirs = in_turn([partial(kernel, *given), partial(kernel.reference, *values)], variant.kind)
        shown = " ".join(f"{name}={size}" for name, size in sizes.items())
        note = "" if reason is None else f" (the reference answered: {reason})"
        print(f"{variant.dtype} {shown}: {ours * 1e6:.1f} µs, {theirs * 1e6:.1f} µs, {theirs / ours:.2f}×{note}")
    return 0


def in_turn(calls: list[Callable[[], Any]], kind: str = "cpu") -> list[float]:
    """The median time of each call, all of them timed in turn so that they meet the same machine."""
    counts = [max(1, int(SECONDS / max(_timed(call, 1, kind), 1e-7))) for call in calls]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, count, found in zip(calls, counts, times, strict=True):
            found.append(_timed(call, count, kind) / count)
    return [statistics.median(found) for found in times]


def _timed(call: Callable[[], Any], count: int, kind: str) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        call()
    if kind == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin
