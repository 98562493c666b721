"""A product that makes its own operand: its numbers, and those of what follows it, are each their own."""

from __future__ import annotations

import re

import pytest
import torch

from kernelwright.proposers.templates import make
from kernelwright.proposers.templates.cuda.kernels import KernelWriter
from kernelwright.proposers.templates.sizes import Sizes
from kernelwright.tasks import Task, tensor
from tests.proposers.templates.emulated import emulated_errors, source_of


def _scaled(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (x / 49.0).relu() @ weight * 3.0


TASK = Task(
    _scaled,
    inputs={"x": tensor("n", "k"), "weight": tensor("k", "m")},
    public=[{"n": 2, "k": 24, "m": 10}],
    hidden={"n": (1, 9), "k": (3, 40), "m": (1, 40)},
    outputs=("out",),
)


def test_an_operand_and_an_epilogue_have_numbers_of_their_own() -> None:
    templates = make(TASK, "cuda")
    source = source_of(templates, {"fold": True})
    assert len(templates.plan.steps) == 2 and "struct Operand_1" in source  # the chain is within the product
    found = re.findall(r'definitions_\["(\w*NUMBER_1_\w+)"\] = (.+)', source)
    assert {float(re.findall(r"[\d.]+", text)[0]) for _, text in found} >= {3.0, 49.0}
    assert all(len({text for name, text in found if name == one}) == 1 for one, _ in found)
    assert emulated_errors(TASK, source, {"n": 2, "k": 24, "m": 10}) == []


def test_a_name_is_not_defined_twice_and_differently() -> None:
    templates = make(TASK, "cuda")
    code = KernelWriter(genes={}, sizes=Sizes(templates.plan.graph), graph=templates.plan.graph, step=0)
    code.define("ROWS_0", "3")
    code.define("ROWS_0", "3")
    with pytest.raises(AssertionError, match="ROWS_0 is 3 and 4"):
        code.define("ROWS_0", "4")
