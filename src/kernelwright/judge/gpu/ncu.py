"""Nsight Compute: which counters it is asked for, and what a report says of each launch.

Of a report only numbers are taken. What it calls a kernel is the candidate's word, so launches are told apart by their
order and named as the plan names them.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from kernelwright.judge.gpu.client import Tooling
from kernelwright.judge.gpu.sanitize import toolkit_program
from kernelwright.judge.verdict import LaunchProfile, Profile, Stall

MOST_LAUNCHES = 16  # of a call are profiled
MOST_STALLS = 3
NOT_INSTALLED = "ncu is not installed; it is part of the CUDA toolkit"
NOT_PERMITTED = (
    "the profiler runs without privileges and may not read the GPU's counters (ERR_NVGPUCTRPERM): "
    "load the driver with NVreg_RestrictProfilingToAdminUsers=0"
)
_PERMISSION = "ERR_NVGPUCTRPERM"

# What each field is read from. Names differ between GPUs and versions: the first that has a value is taken.
_OF_PEAK = ".avg.pct_of_peak_sustained_elapsed"
_FIELDS: dict[str, tuple[str, ...]] = {
    "seconds": ("gpu__time_duration.sum",),
    "dram_read_bytes": ("dram__bytes_read.sum",),
    "dram_written_bytes": ("dram__bytes_write.sum",),
    "of_dram": (f"gpu__dram_throughput{_OF_PEAK}", f"dram__throughput{_OF_PEAK}"),
    "l2_hits": ("lts__t_sector_hit_rate.pct",),
    "of_l2": (f"lts__throughput{_OF_PEAK}",),
    "of_sm": (f"sm__throughput{_OF_PEAK}",),
    "of_float32": (f"sm__pipe_fma_cycles_active{_OF_PEAK}", f"sm__inst_executed_pipe_fma{_OF_PEAK}"),
    "of_tensor": (f"sm__pipe_tensor_cycles_active{_OF_PEAK}", f"sm__inst_executed_pipe_tensor{_OF_PEAK}"),
    "occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "eligible_warps": ("smsp__warps_eligible.avg.per_cycle_active",),
    "issuing": ("smsp__issue_active.avg.pct_of_peak_sustained_active",),
    "registers": ("launch__registers_per_thread",),
    "waves": ("launch__waves_per_multiprocessor",),
}
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_LOCAL = ("l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum")
_STALLS = {
    reason: f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
    for reason in (
        *("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle"),
        *("long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction"),
        *("not_selected", "short_scoreboard", "sleeping", "tex_throttle", "wait"),
    )
}
METRICS = (*(name for names in _FIELDS.values() for name in names), _CONFLICTS, _WAVEFRONTS, *_LOCAL, *_STALLS.values())

_TIMES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}
_SCALES = {"%": 0.01, "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}
_SCALES |= {f"{prefix}{unit}": scale for prefix, scale in _TIMES.items() for unit in ("s", "second")}
_NUMBER = re.compile(r"\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?", re.ASCII)
_LARGEST = 1e18
_WORDS = 200


def ncu() -> str | None:
    """The path of Nsight Compute's command."""
    return toolkit_program("ncu")


def profiling(path: str) -> Tooling:
    """What runs a launcher under the profiler. Clocks stay as they are, as for all that is timed here."""
    arguments = (
        *("--metrics", ",".join(METRICS), "--launch-count", str(MOST_LAUNCHES)),
        *("--clock-control", "none", "--cache-control", "all"),
        *("--csv", "--page", "raw", "--print-units", "base"),
    )
    return Tooling(path, arguments)


def parse(text: str, kernels: Sequence[str]) -> Profile:
    """`kernels` are the launches of the call, in order, as their author calls them."""
    rows = list(_rows(text))
    wanted = kernels[:MOST_LAUNCHES]
    if not rows:
        return Profile(missing=_complaint(text))
    if len(rows) != len(wanted):
        return Profile(missing=f"ncu tells of {len(rows)} launches where {len(wanted)} were made")
    return Profile(launches=tuple(_launch(name, row) for name, row in zip(wanted, rows, strict=True)))


def _rows(text: str) -> Iterator[dict[str, float]]:
    """The numbers of each launch by metric. Before the table stand lines of ncu's own, and its second row has units."""
    start = re.search(r'^"ID",', text, re.MULTILINE)
    if start is None:
        return
    table = csv.reader(io.StringIO(text[start.start() :]))
    try:
        header, units = next(table), next(table)
        if len(units) != len(header):
            return
        for row in table:
            if len(row) == len(header) and row[0].isdecimal():
                found = zip(header, units, row, strict=True)
                yield {name: number for name, unit, value in found if (number := _number(value, unit)) is not None}
    except (csv.Error, StopIteration):
        return


def _number(text: str, unit: str) -> float | None:
    plain = text.replace(",", "").strip()
    if not _NUMBER.fullmatch(plain):
        return None  # "n/a", "nan", and whatever else is not a measurement
    value = float(plain) * _SCALES.get(unit.strip(), 1.0)
    return value if math.isfinite(value) and value <= _LARGEST else None


def _launch(kernel: str, found: Mapping[str, float]) -> LaunchProfile:
    told = {field: next((found[name] for name in names if name in found), None) for field, names in _FIELDS.items()}
    conflicts, wavefronts = found.get(_CONFLICTS), found.get(_WAVEFRONTS)
    local = [found[name] for name in _LOCAL if name in found]
    return LaunchProfile(
        kernel=kernel,
        **told,
        bank_conflicts=min(1.0, conflicts / wavefronts) if conflicts is not None and wavefronts else None,
        local_bytes=sum(local) if local else None,
        stalls=_stalls(found),
    )


def _stalls(found: Mapping[str, float]) -> tuple[Stall, ...]:
    """The largest, as shares of all waiting: each is how many warps waited for it at an instruction's issue."""
    waiting = {reason: found[name] for reason, name in _STALLS.items() if found.get(name)}
    total = math.fsum(waiting.values())
    largest = sorted(waiting.items(), key=lambda item: -item[1])[:MOST_STALLS]
    return tuple(Stall(reason=reason, share=value / total) for reason, value in largest)


def _complaint(text: str) -> str:
    errors = [line for line in text.splitlines() if line.startswith("==ERROR==")]
    if any(_PERMISSION in line for line in errors):
        return NOT_PERMITTED
    said = "".join(c for c in "".join(errors[:1]).removeprefix("==ERROR==") if c.isprintable()).strip()
    return f"ncu: {said[:_WORDS]}" if said else "ncu told of no launch"
