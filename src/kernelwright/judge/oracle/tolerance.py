"""How far a right answer may lie from the reference: bounds for every element of every result of one trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from kernelwright.judge.oracle.rounding import Noise, Probe, Push, Record
from kernelwright.judge.oracle.kinks import Sites
from kernelwright.judge.oracle.scales import row_scale
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import Argument, run_reference

C_EAGER = 4.0
C_STEP = 256.0
C_ROUND = 1.0
REACH = 2.0
FLOOR = 64.0
PROBES = 8

UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-9}


@dataclass(frozen=True)
class Within:
    low: torch.Tensor
    high: torch.Tensor
    nan: torch.Tensor | None = None


Results = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Study:
    exact: Results
    eager: Results
    spread: Results
    jumps: Results


def floating(x):
    return isinstance(x, torch.Tensor) and x.is_floating_point()

def converted(inputs, form):
    return { name: value.to(form) if floating(value) else value for name, value in inputs.items() }


def study(task: Task, inputs: Mapping[str, Argument], h: float, form: torch.dtype = torch.float32, seed: int = 0) -> Study:
    wide = converted(inputs, torch.float64)
    sites = Sites((value for value in wide.values() if isinstance(value, torch.Tensor)), form)
    with Record(sites):
        exact = run_reference(task, wide)
    sites.recorded()
    exact = {k: v.to(form) if v.is_floating_point() else v for k,v in exact.items()}
    del wide
    eager = run_reference(task, inputs)
    narrow = converted(inputs, form)
    floats = [name for name, value in eager.items() if value.is_floating_point()]
    spread: Results = {}
    for number in range(PROBES):
        noise = Noise(h, seed * 1000 + number)
        moved = { name: noise.applied(value) if floating(value) else value for name, value in narrow.items() }
        with Probe(sites, noise):
            probe = run_reference(task, moved)
        for name in floats:
            _add(spread, name, probe[name], exact[name])
        del probe, moved
    for s in spread.values():
        s.mul_(REACH / PROBES)
    jumps: Results = {}
    if any([site.widen(PROBES, h, REACH) for site in sites.found]):
        plain = run_reference(task, narrow)
        for direction, s in ((1.0, None), (-1.0, None), (1.0, 1), (-1.0, 1)):
            with Push(sites, direction, s):
                pushed = run_reference(task, narrow)
            for name in floats:
                _add(jumps, name, pushed[name], plain[name])
    return Study(exact, eager, spread, jumps)


def _add(sums: Results, name: str, moved: torch.Tensor, exact: torch.Tensor) -> None:
    off = (moved - exact).abs_()
    if name in sums:
        sums[name].add_(off)
    else:
        sums[name] = off


def tolerance(task: Task, s: Study, name: str, u: float) -> tuple[torch.Tensor, torch.Tensor]:
    eager = s.eager[name]
    exact = s.exact[name]
    work = exact.dtype
    size = exact.abs()
    spread = s.spread[name]
    tol = torch.maximum(size * (C_STEP * u), spread)
    tol = torch.maximum(tol, row_scale(spread, 8, nonzero=True), out=tol)
    tol.add_(size, alpha=C_ROUND * UNIT[eager.dtype])
    error = (eager - exact).abs_()
    torch.maximum(tol, row_scale(error, 64) * C_EAGER, out=tol)
    torch.maximum(tol, error.mul_(2.0), out=tol)
    if name in s.jumps:
        j = s.jumps[name]
        tol.add_(j).add_(row_scale(j, 8).mul_(2.0))
    tol.mul_(task.precision.slack).clamp_min_(FLOOR * torch.finfo(work).tiny)
    return exact, tol


def expectations(task: Task, inputs: Mapping[str, Argument], workload: Workload) -> dict[str, Within]:
    u = UNIT[torch.float64 if workload.dtype == "float64" else getattr(torch, task.precision.compute)]
    s = study(task, inputs, C_STEP * u, torch.float64 if workload.dtype=='float64' else torch.float32)
    out = {}
    for name in s.spread:
        exact, tol = tolerance(task, s, name, u)
        d = s.eager[name].dtype
        out[name] = Within((exact - tol).to(d), exact.add_(tol).to(d))
    return out
