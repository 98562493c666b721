"""What lint looks at: trials drawn and held against expectations as the judge does it, and a few more draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from kernelwright.judge.keys import seed as key_seed
from kernelwright.judge.oracle.right.compare import check
from kernelwright.judge.oracle.right.tolerance import BitExact, ChosenIndex, Expectation, Within, expectations
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import Argument, run_reference
from kernelwright.tasks.small_sizes import is_light, trial_workload

OTHERS = 3
LARGE = 4096  # elements of a result, from which on one other draw shows what three would
SENTINEL = 0x7FF17FF1
SAMPLE = 4096
PROBED_SIZE = 16

Results = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Drawn:
    inputs: dict[str, Argument]
    results: Results


@dataclass(frozen=True)
class Trial:
    """One trial with what the judge would hold results against, and further draws of the same family."""

    workload: Workload
    family: Family
    drawn: Drawn
    expected: dict[str, Expectation]
    others: tuple[Drawn, ...]

    def accepts(self, name: str, answer: torch.Tensor) -> bool:
        return accepted(self.expected[name], answer)

    def noticed(self, results: Mapping[str, torch.Tensor]) -> bool:
        """Whether the judge would tell these results from the right ones."""
        return any(not self.accepts(name, result.contiguous()) for name, result in results.items())


def trial(task: Task, workload: Workload, family: Family, seed: int, others: int | None = None) -> Trial:
    first = draw(task, workload, family, seed)
    if others is None:
        others = 1 if min(result.numel() for result in first.results.values()) >= LARGE else OTHERS
    more = tuple(draw(task, workload, family, seed, number) for number in range(1, 1 + others))
    return Trial(workload, family, first, expectations(task, first.inputs, workload), more)


def probing_workloads(task: Task) -> tuple[Workload, ...]:
    """Small workloads, one for each dtype, on which many changed inputs can be tried.

    Sizes lie inside the hidden ranges, unless even the smallest are large; they are a little larger than the smallest,
    so that each axis has halves.
    """
    sizes = tuple((name, max(low, min(high, PROBED_SIZE))) for name, (low, high) in task.hidden.items())
    if is_light(task, Workload(sizes, task.dtypes[0])):
        return tuple(Workload(sizes, dtype) for dtype in task.dtypes)
    return tuple(one for dtype in task.dtypes if (one := trial_workload(task, dtype)) is not None)


def tried_workloads(task: Task) -> tuple[Workload, ...]:
    """The public workloads that are small enough to be computed here."""
    return tuple(workload for workload in task.public_workloads() if is_light(task, workload))


def accepted(expectation: Expectation, answer: torch.Tensor) -> bool:
    """As the judge compares. A sample goes first: what fails there fails, without a full comparison."""
    if not isinstance(expectation, ChosenIndex) and answer.numel() > 2 * SAMPLE:
        stride = answer.numel() // SAMPLE | 1
        if check(_every(expectation, stride), answer.reshape(-1)[::stride].contiguous(), SENTINEL) is not None:
            return False
    return check(expectation, answer, SENTINEL) is None


def _every(expectation: Within | BitExact, stride: int) -> Within | BitExact:
    def some(values: torch.Tensor) -> torch.Tensor:
        return values.reshape(-1)[::stride].contiguous()

    if isinstance(expectation, BitExact):
        return BitExact(some(expectation.value))
    nan = None if expectation.nan is None else some(expectation.nan)
    return Within(some(expectation.low), some(expectation.high), nan)


def seed_for(seed: int, *parts: str | int) -> int:
    return key_seed(b"lint", seed, *parts)


def draw(task: Task, workload: Workload, family: Family, seed: int, number: int = 0) -> Drawn:
    generator = torch.Generator().manual_seed(seed_for(seed, workload.label, str(family), number))
    inputs = draw_inputs(task, workload, family, generator)
    return Drawn(inputs, run_reference(task, inputs))
