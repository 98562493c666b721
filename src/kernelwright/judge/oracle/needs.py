"""What a judging needs, in bytes, before anything is computed for it; and whether its trials are judged in slices.

With the bytes of a workload's inputs `i`, its results `r`, and of one call of its reference in float64 (`call_memory`)
its arguments `A`, the most that it makes at a time `P` and its results `R`:

    whole    i + r  arena,  i + 3.5 r  a pair of inputs and bounds and a remembered result,
             2 A + 3 P + R + 64 MiB  while the pair is studied
    sliced   i + r  arena,  tensors that are changed in place,
             the larger of  i  (drawing) and  2 A' + (3 P + R) / n + 64 MiB  (one of n slices, A' its arguments)
    both     and for each baseline what one call in the task's dtype makes

The factors are upper bounds that were measured on every built-in task; docs/decisions/0039-memory.md has them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from kernelwright.contracts.layout import extent_bytes
from kernelwright.judge.oracle.ledger import Ledger, Need
from kernelwright.judge.oracle.separable import Axes, separable_axes
from kernelwright.tasks.footprint import CallMemory, call_memory
from kernelwright.tasks.model import Signature, Task, TensorSpec, Workload

ARGUMENTS, PEAK, FIXED = 2, 3, 64 << 20
HELD_RESULTS = 3.5  # two bounds, masks, and what is remembered of a call
SLICE_SHARE = 8  # a slice may take one part in so many of the limit


@dataclass(frozen=True)
class Slicing:
    """Trials are judged in so many slices along an axis."""

    axes: Axes
    count: int


@dataclass(frozen=True)
class MemoryPlan:
    need: Need
    slicing: Slicing | None = None


def plan_memory(task: Task, workload: Workload, signature: Signature, ledger: Ledger, baselines: int) -> MemoryPlan:
    """As a whole if that fits, in slices if the reference can be cut; what fits neither way is told by its need."""
    wide = call_memory(task, workload, torch.float64)
    theirs = baselines * call_memory(task, workload).peak
    inputs = _bytes(signature, ("input", "constant", "inout"))
    results = _bytes(signature, ("inout", "output"))
    arena = _bytes(signature, ("input", "constant", "inout", "output"))
    whole = Need(
        arena,
        inputs + int(HELD_RESULTS * results),
        ARGUMENTS * wide.arguments + PEAK * wide.peak + wide.results + FIXED,
        theirs,
    )
    if ledger.fits(whole):
        return MemoryPlan(whole)
    axes = separable_axes(task, workload)
    if axes is None:
        return MemoryPlan(whole)
    count, working = _cut(task, signature, wide, axes, ledger.limit)
    sliced = Need(arena, _bytes(signature, ("inout",)), max(inputs, working), theirs)
    return MemoryPlan(sliced, Slicing(axes, count)) if sliced.total < whole.total else MemoryPlan(whole)


def _cut(task: Task, signature: Signature, wide: CallMemory, axes: Axes, limit: int) -> tuple[int, int]:
    """Into how many slices, and the bytes that one of them takes."""
    specs = {tensor.name: tensor for tensor in signature.tensors}
    name, axis = next(iter(axes.inputs.items()))
    extent = specs[name].shape[axis]
    cut = sum(_wide_bytes(specs[one]) for one in axes.inputs)
    rest = max(0, wide.arguments - cut)
    varying = ARGUMENTS * cut + PEAK * wide.peak + wide.results
    count = min(extent, max(1, math.ceil(varying / max(1, limit // SLICE_SHARE))))
    return count, ARGUMENTS * rest + math.ceil(varying / extent * math.ceil(extent / count)) + FIXED


def _wide_bytes(spec: TensorSpec) -> int:
    itemsize = getattr(torch, spec.dtype).itemsize
    return math.prod(spec.shape) * (8 if getattr(torch, spec.dtype).is_floating_point else itemsize)


def _bytes(signature: Signature, roles: tuple[str, ...]) -> int:
    return sum(extent_bytes(tensor) for tensor in signature.tensors if tensor.role in roles)
