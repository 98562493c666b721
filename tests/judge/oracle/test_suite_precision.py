"""In every task of the suite that computes, the judge sees inputs that were rounded to a coarser format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
import torch

from kernelwright.insight.lint.trials import accepted, probing_workloads
from kernelwright.judge.oracle.errors.shortened import kept
from kernelwright.judge.oracle.right.tolerance import expectations
from kernelwright.tasks.catalogue import SUITES
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.reference import Argument, run_reference
from kernelwright.tasks.resolve import declared

# The mean of a cross entropy averages roundings away; tests/corpus has it, and says which it shows.
REFS = [ref for ref in SUITES["robust"] if ref != "cross_entropy"]
COARSE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "tf32": lambda value: kept(value, 11, nearest=True),
    "float16": lambda value: value.half().float(),
    "bfloat16": lambda value: value.bfloat16().float(),
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rounded(inputs: Mapping[str, Argument], form: str) -> dict[str, Argument]:
    def through(value: Argument) -> Argument:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return COARSE[form](value)
        return value

    return {name: through(value) for name, value in inputs.items()}


@pytest.mark.parametrize("ref", REFS)
def test_a_downcast_is_rejected_and_eager_is_not(ref: str) -> None:
    task = declared(ref)
    (workload,) = probing_workloads(task)
    inputs = draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(5))
    expected = expectations(task, inputs, workload)

    def right(given: Mapping[str, Argument]) -> bool:
        results = run_reference(task, given)
        return all(accepted(expected[name], result.contiguous()) for name, result in results.items())

    assert right(inputs)
    assert [form for form in COARSE if right(rounded(inputs, form))] == []
