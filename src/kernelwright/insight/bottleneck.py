"""The time that measured peaks allow for a workload (its bound), and what holds a kernel back from it.

A kernel is limited by launching, moving, computing or waiting. Where there are counters of a GPU they say more of each
launch: which unit is busy, or what warps wait for. All are pure functions of numbers, so that prompts, reports and
tests say the same of the same kernel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kernelwright.judge.verdict import LaunchProfile
from kernelwright.judge.wording import byte_count, duration

if TYPE_CHECKING:
    from kernelwright.devices.cpu import CpuPeaks
    from kernelwright.tasks.model import Task, Workload


@dataclass(frozen=True)
class Bound:
    """`bytes` and `operations` as `tasks.cost` counts them."""

    bytes: int
    operations: int
    moving: float
    computing: float

    @property
    def seconds(self) -> float:
        return max(self.moving, self.computing)


def bound(task: Task, workload: Workload, peaks: CpuPeaks) -> Bound:
    from kernelwright.tasks.cost import cost  # not needed to show a profile

    least = cost(task, workload)
    return Bound(
        bytes=least.moved,
        operations=least.operations,
        moving=least.moved / peaks.bandwidth,
        computing=least.operations / peaks.operations(workload.dtype),
    )


NEAR = 0.9  # of the bound's speed: little is left to gain
BEATEN = 1.05  # of it: a peak was measured too low, or another unit was used, and the bound says nothing
LAUNCHING = 0.4  # of the time: what the kernel does hardly matters any more
BUSY = 0.6  # of a peak: the unit is what limits
LARGEST = 0.8  # of the time in one launch: there is no need to look at the others
MORE = 1.3  # times the bytes that must be moved: worth a word
SPILLED = 0.05  # of the bytes from and to DRAM
CONFLICTS = 0.2  # of what shared memory did
TAIL = 1.3  # times as many waves as a grid of the same work needs


class Limit(StrEnum):
    """`waiting`: neither memory nor arithmetic is busy, so that latency, imbalance or barriers are."""

    bound = "bound"
    launching = "launching"
    moving = "moving"
    computing = "computing"
    waiting = "waiting"


@dataclass(frozen=True)
class Peaks:
    """What the device reaches: bytes and operations a second, and the seconds that an empty launch takes."""

    bandwidth: float | None = None
    operations: float | None = None
    launch: float = 0.0


@dataclass(frozen=True)
class Bottleneck:
    """Shares are of the kernel's time or of a peak; None where the peak is not known."""

    limit: Limit
    bandwidth: float
    operations: float
    of_bandwidth: float | None
    of_operations: float | None
    of_bound: float | None
    launching: float

    @property
    def sentence(self) -> str:
        return SENTENCES[self.limit]


SENTENCES = {
    Limit.bound: "It is near the bound; only doing less work, or none twice, can help.",
    Limit.launching: "Most of the time is launching: fewer launches, or overlapping ones, matter more than kernels.",
    Limit.moving: "Memory is busy: move fewer bytes (fuse, keep values in registers, never read anything twice).",
    Limit.computing: "Arithmetic is busy: use a faster unit, or fewer operations.",
    Limit.waiting: "Neither memory nor arithmetic is busy: too little work in flight, barriers, imbalance, or a tail.",
}


def bottleneck(seconds: float, moved: int, operations: int, peaks: Peaks, bound: float | None = None) -> Bottleneck:
    bandwidth, rate = moved / seconds, operations / seconds
    of_bandwidth = bandwidth / peaks.bandwidth if peaks.bandwidth else None
    of_operations = rate / peaks.operations if peaks.operations else None
    of_bound = bound / seconds if bound else None
    launching = min(1.0, peaks.launch / seconds)
    arithmetic = (of_operations or 0.0) > (of_bandwidth or 0.0)  # and a faster unit may beat that bound
    if of_bound is not None and NEAR <= of_bound <= BEATEN and not arithmetic:
        limit = Limit.bound
    elif launching >= LAUNCHING:
        limit = Limit.launching
    elif (of_operations or 0.0) >= max(BUSY, of_bandwidth or 0.0):
        limit = Limit.computing
    elif (of_bandwidth or 0.0) >= BUSY:
        limit = Limit.moving
    else:
        limit = Limit.waiting
    return Bottleneck(limit, bandwidth, rate, of_bandwidth, of_operations, of_bound, launching)


@dataclass(frozen=True)
class Profiled:
    """What the counters say of a call, which is mostly that of its longest launch."""

    limit: Limit
    sentence: str


# Units, busiest first among those that are busy; `of_sm` is the busiest of a multiprocessor's parts, whichever it is.
_UNITS = {
    "of_dram": (Limit.moving, "DRAM is busy ({}): move fewer bytes, or none twice."),
    "of_l2": (Limit.moving, "The L2 is busy ({}): read less from it (larger tiles, shared memory, wider loads)."),
    "of_tensor": (Limit.computing, "Tensor cores are busy ({}): only fewer or cheaper products can help."),
    "of_float32": (Limit.computing, "The float32 units are busy ({}): fewer operations, or another unit."),
}
_PARTS = "A part of the multiprocessors is busy ({}), and neither float32 nor tensor units: count other instructions."
_STALLS = {
    "long_scoreboard": "for loads from global or local memory: have more of them in flight, or begin them earlier",
    "short_scoreboard": "for shared memory or special functions: fewer or wider accesses",
    "mio_throttle": "for room in the queue of shared memory and special functions: fewer or wider accesses",
    "lg_throttle": "for room in the queue of global memory: wider loads and stores, fewer of them",
    "tex_throttle": "for room in the queue of the texture unit: fewer such accesses",
    "barrier": "at barriers: fewer of them, smaller blocks, or work between arriving and waiting",
    "membar": "for memory fences: fewer of them, or narrower ones",
    "math_pipe_throttle": "for a busy arithmetic unit: spread the work over units",
    "wait": "for fixed latencies of instructions before: more independent work in each thread, or more warps",
    "gmma": "for warpgroup products: more of them in flight",
    "no_instruction": "for instructions: the code is too long for its cache, or jumps too much",
    "imc_miss": "for constants that are not in their cache",
    "branch_resolving": "for branches",
    "drain": "for stores at their end: wider stores, or fewer",
    "sleeping": "because they sleep: spinning on a flag",
    "not_selected": "only for their turn: there are more than enough warps",
}


def profiled(launches: Sequence[LaunchProfile], moved: int | None = None) -> Profiled | None:
    """`moved` is what must be moved at least. None where the counters do not tell."""
    if not launches:
        return None
    times = [one.seconds or 0.0 for one in launches]
    index = max(range(len(launches)), key=times.__getitem__)
    limit, sentence = _limit(launches[index])
    if not sentence:
        return None
    share = times[index] / math.fsum(times) if math.fsum(times) else 0.0
    whose = f"Launch {index + 1} takes {share:.0%} of the time" if len(launches) > 1 and share else ""
    if whose and share < LARGEST:
        whose += "; look at the others, too"
    parts = [f"{whose}." if whose else "", sentence, *_remarks(launches[index]), _traffic(launches, moved)]
    return Profiled(limit, " ".join(part for part in parts if part))


def _limit(one: LaunchProfile) -> tuple[Limit, str]:
    busy = {name: share for name in _UNITS if (share := getattr(one, name)) is not None and share >= BUSY}
    if busy:
        name = max(busy, key=busy.__getitem__)
        limit, sentence = _UNITS[name]
        return limit, sentence.format(f"{busy[name]:.0%} of its peak")
    if one.of_sm is not None and one.of_sm >= BUSY:
        return Limit.computing, _PARTS.format(f"{one.of_sm:.0%} of its peak")
    if not one.stalls:
        return Limit.waiting, ""
    first = one.stalls[0]
    why = _STALLS.get(first.reason, f"for {first.reason}")
    return Limit.waiting, f"No unit is busy; {first.share:.0%} of all waiting of warps is {why}."


def _remarks(one: LaunchProfile) -> list[str]:
    found = []
    if one.waves is not None and 0 < one.waves < 1 / MORE:
        found.append(f"The grid fills {one.waves:.0%} of the GPU: use more blocks, or smaller ones.")
    elif one.waves is not None and one.waves > 1 and math.ceil(one.waves) / one.waves >= TAIL:
        found.append(f"The last of {math.ceil(one.waves)} waves is mostly empty: another grid would fill it.")
    dram = (one.dram_read_bytes or 0.0) + (one.dram_written_bytes or 0.0)
    if one.local_bytes and one.local_bytes > SPILLED * dram:
        found.append(f"{byte_count(one.local_bytes)} go through local memory: registers spill, or arrays are indexed.")
    if one.bank_conflicts is not None and one.bank_conflicts >= CONFLICTS:
        found.append(f"{one.bank_conflicts:.0%} of what shared memory does are bank conflicts: pad or swizzle.")
    return found


def _traffic(launches: Sequence[LaunchProfile], moved: int | None) -> str:
    dram = math.fsum((one.dram_read_bytes or 0.0) + (one.dram_written_bytes or 0.0) for one in launches)
    if not moved or dram < MORE * moved:
        return ""
    return f"From and to DRAM go {byte_count(dram)}, {dram / moved:.1f} times what must be moved."


MOST_LAUNCHES = 8
NAME_LENGTH = 60
_COMMENT = re.compile(r"/\*.*?(\*/|$)|//.*", re.DOTALL)


def symbol(name: str) -> str:
    """A kernel's name as far as it names a kernel: comments in it could say anything."""
    plain = " ".join(_COMMENT.sub(" ", name).replace("`", "'").split())
    return plain if len(plain) <= NAME_LENGTH else f"{plain[: NAME_LENGTH - 1]}…"


def profile_table(launches: Sequence[LaunchProfile]) -> tuple[str, ...]:
    """A table without what no launch has; of many launches the longest, in order."""
    numbered = list(enumerate(launches, 1))
    longest = sorted(numbered, key=lambda item: -(item[1].seconds or 0.0))[:MOST_LAUNCHES]
    rows = [[f"{number}", *_cells(one)] for number, one in sorted(longest, key=lambda item: item[0])]
    head = ["launch", *_COLUMNS]
    kept = [index for index in range(len(head)) if any(row[index] for row in rows)]
    return tuple(" | ".join(row[index] or "-" for index in kept) for row in ([head, *rows] if rows else []))


def _cells(one: LaunchProfile) -> list[str]:
    return [make(one) for make in _COLUMNS.values()]


def _shown(value: float | None, form: Callable[[float], str]) -> str:
    return "" if value is None else form(value)


def _percent(value: float | None) -> str:
    return _shown(value, "{:.0%}".format)


_COLUMNS: dict[str, Callable[[LaunchProfile], str]] = {
    "kernel": lambda one: symbol(one.kernel).replace("|", "¦"),
    "time": lambda one: _shown(one.seconds, duration),
    "DRAM read": lambda one: _shown(one.dram_read_bytes, byte_count),
    "DRAM written": lambda one: _shown(one.dram_written_bytes, byte_count),
    "DRAM": lambda one: _percent(one.of_dram),
    "L2 hits": lambda one: _percent(one.l2_hits),
    "L2": lambda one: _percent(one.of_l2),
    "SM": lambda one: _percent(one.of_sm),
    "float32": lambda one: _percent(one.of_float32),
    "tensor": lambda one: _percent(one.of_tensor),
    "occupancy": lambda one: _percent(one.occupancy),
    "issuing": lambda one: _percent(one.issuing),
    "eligible warps": lambda one: _shown(one.eligible_warps, "{:.2f}".format),
    "registers": lambda one: _shown(one.registers, "{:.0f}".format),
    "waves": lambda one: _shown(one.waves, "{:.2f}".format),
    "bank conflicts": lambda one: _percent(one.bank_conflicts),
    "local memory": lambda one: _shown(one.local_bytes, byte_count),
    "stalls": lambda one: ", ".join(f"{stall.reason} {stall.share:.0%}" for stall in one.stalls),
}
