"""Measures the corpus: how much of the tolerance each kernel uses, and whether the judge accepts it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch

from corpus.operations import Kind, Operation, Tensor, variants
from kernelwright.judge.oracle.right.compare import check
from kernelwright.judge.oracle.right.tolerance import (
    BitExact,
    Expectation,
    Within,
    compute_dtype,
    expectations,
    study,
    tolerance,
)
from kernelwright.tasks.declarations import FAMILIES, Family
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.formats import is_narrow
from kernelwright.tasks.model import Workload
from kernelwright.tasks.reference import run_reference

SENTINEL = 0x7FF17FF2


@dataclass
class Row:
    """What was seen of one variant. A ratio is the largest error of a trial in units of its tolerance.

    `patience` is how many trials, rotating through the families, were needed for the first rejection, at
    worst; None if some rotation never rejected.
    """

    operation: str
    variant: str
    kind: Kind
    ratios: list[float] = field(default_factory=list)
    rejected: list[bool] = field(default_factory=list)
    waits: list[int | None] = field(default_factory=list)

    @property
    def patience(self) -> int | None:
        waits = [wait for wait in self.waits if wait is not None]
        return max(waits) if len(waits) == len(self.waits) else None


def measure(
    operation: Operation,
    seeds: Sequence[int],
    workloads: Sequence[Workload],
    families: Sequence[Family] = FAMILIES,
) -> list[Row]:
    """One row for each variant of an operation, over all trials."""
    found = list(variants(operation))
    rows = [Row(operation.name, variant.name, variant.kind) for variant in found]
    for workload in workloads:
        for seed in seeds:
            rejections: list[list[bool]] = [[] for _ in found]
            for family in families:
                trial = Trial(operation, workload, family, seed)
                for variant, row, rejected in zip(found, rows, rejections, strict=True):
                    ratio, accepted = trial.judge(variant.run(trial.inputs))
                    row.ratios.append(ratio)
                    row.rejected.append(not accepted)
                    rejected.append(not accepted)
            for row, rejected in zip(rows, rejections, strict=True):
                row.waits.append(rejected.index(True) + 1 if any(rejected) else None)
    return rows


class Trial:
    """Drawn inputs, with what is expected on them."""

    def __init__(self, operation: Operation, workload: Workload, family: Family, seed: int) -> None:
        task = operation.task
        key = zlib.crc32(f"{operation.name} {workload.label} {family} {seed}".encode())
        self.inputs = draw_inputs(task, workload, family, torch.Generator().manual_seed(key))
        self.expected = expectations(task, self.inputs, workload)
        self._forms = {name: result.dtype for name, result in run_reference(task, self.inputs).items()}
        if not any(is_narrow(form) for form in self._forms.values()):
            self._allowed = {name: _from_bounds(bounds) for name, bounds in self.expected.items()}
        else:  # bounds that were rounded to a narrow format no longer show the tolerance
            seen = study(partial(run_reference, task), self.inputs, compute_dtype(task, workload))
            self._allowed = {name: (seen.exact[name].double(), tolerance(seen, name, 1.0)) for name in seen.exact}

    def judge(self, results: dict[str, Tensor]) -> tuple[float, bool]:
        ratios = list(self._ratios(results))
        accepted = all(
            check(self.expected[name], result.to(self._forms[name]).contiguous(), SENTINEL) is None
            for name, result in results.items()
        )
        return max(ratios), accepted

    def _ratios(self, results: dict[str, Tensor]) -> Iterator[float]:
        for name, (exact, allowed) in self._allowed.items():
            error = (results[name].double() - exact).abs()
            ratio = torch.where(error == 0, 0.0, error / allowed)  # what selects is allowed nothing
            yield float(ratio.nan_to_num_(torch.inf, torch.inf).max())


def _from_bounds(bounds: Expectation) -> tuple[Tensor, Tensor]:
    if isinstance(bounds, BitExact):
        return bounds.value.double(), torch.zeros_like(bounds.value, dtype=torch.float64)
    assert isinstance(bounds, Within) and bounds.nan is None
    low, high = bounds.low.double(), bounds.high.double()
    return (low + high) / 2, (high - low) / 2
