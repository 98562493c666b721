"""Rendered candidates compile and agree with the float64 reference on ragged shapes, whatever their genes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import make
from kernelwright.tasks import Family, Task
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Workload
from kernelwright.tasks.resolve import resolve
from tests.proposers.templates import references
from tests.proposers.templates.checking import aligned, call, compiled, errors

MATRICES = [(1, 70001), (3, 20011), (1500, 67), (37, 1), (301, 1000), (16, 16)]
IMAGES = [(1, 3, 9, 17), (2, 5, 64, 64), (1, 2, 31, 203), (3, 1, 8, 8)]
PRODUCTS = [(37, 61, 97), (1, 257, 31), (200, 64, 129), (8, 16, 32)]


def shapes(task: Task) -> list[dict[str, int]]:
    names = list(task.hidden)
    chosen = {1: [(n,) for n in (1, 15, 16, 100003)], 2: MATRICES, 3: PRODUCTS, 4: IMAGES}
    if len(names) == 5:
        return [dict(zip(names, values, strict=True)) for values in ((2, 3, 12, 17, 5), (5, 1, 28, 28, 33))]
    if task.name.startswith(("swiglu", "linear_gelu")):
        return [dict(zip(names, values, strict=True)) for values in ((2, 7, 33, 65), (1, 16, 130, 96))]
    return [dict(zip(names, values, strict=True)) for values in chosen[len(names)]]


def check(task: Task, count: int, seed: int, families: tuple[Family, ...]) -> None:
    made = make(task, "cpp").propose(Request(Operator.fresh, count, seed))
    for proposal in made if count == 1 else (made[0], *made[-2:]):
        for sizes in shapes(task):
            for family in families:
                wrong = errors(task, proposal.candidate.source, sizes, family)
                assert not wrong, (sizes, family, proposal.genes, wrong)


@pytest.mark.parametrize("ref", ["softmax", "layernorm:backward", "cross_entropy", "adamw", "maxpool2d:backward"])
def test_the_first_proposal_agrees(ref: str) -> None:
    check(resolve(ref), 1, 0, (Family.NORMAL,))


@pytest.mark.slow
@pytest.mark.parametrize(
    "ref",
    [
        *("adamw", "argmax", "cross_entropy", "cross_entropy:backward", "layernorm", "layernorm:backward"),
        *("linear_relu", "linear_relu:backward", "maxpool2d", "maxpool2d:backward", "rmsnorm", "rmsnorm:backward"),
        *("softmax", "softmax:backward"),
    ],
)
def test_builtin_references_agree_for_drawn_genes(ref: str) -> None:
    task = resolve(ref)
    check(task, 60, 1, task.families[:3])


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    [
        references.swiglu(),
        references.linear_gelu(),
        references.wide_layernorm(),
        references.convolution(),
        references.convolution(2, 1, pooled=False),
    ],
    ids=lambda task: task.name,
)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_what_users_write_agrees(task: Task, direction: str) -> None:
    check(task if direction == "forward" else references.backward(task), 40, 2, (Family.NORMAL,))


@pytest.mark.slow
def test_a_scatter_agrees() -> None:
    check(references.scatter(), 8, 2, (Family.NORMAL,))


def test_elementary_functions_are_right_everywhere() -> None:
    """All in one kernel, over the whole range and its ends."""

    def functions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.exp(), x.log(), x.tanh(), x.erf(), x.sigmoid(), x.sqrt(), x.relu()

    names = ("exp", "log", "tanh", "erf", "sigmoid", "sqrt", "relu")
    inputs = references.pointwise(functions).inputs
    task = Task(functions, inputs, [{"n": 9}, {"n": 8}], {"n": (1, 99999)}, "functions", outputs=names)
    ends = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 88.7, 88.8, -87.4, -103.0, -104.5, 3.4e38, 1.0]
    x = aligned(torch.cat([torch.tensor(ends), torch.linspace(-20, 20, 4001), torch.logspace(-44, 38, 3000)]))
    source = make(task, "cpp").propose(Request(Operator.fresh, 1, 0))[0].candidate.source
    form = signature(task, Workload((("n", x.numel()),)))
    tensors = {"x": x} | {name: aligned(torch.empty_like(x)) for name in names}
    call(compiled(source, form), form, tensors)
    for name, exact in zip(names, functions(x.double()), strict=True):
        expected, made = exact.float(), tensors[name]
        assert torch.equal(made.isnan(), expected.isnan()), name
        assert torch.equal(made.isinf(), expected.isinf()), name
        gap = (made.double() - exact).abs()[expected.isfinite()]
        allowed = (4e-7 * exact.abs() + 2e-38)[expected.isfinite()]
        assert bool((gap <= allowed).all()), (name, float((gap / allowed).max()))


def test_masks_among_floats_count_as_ones_and_zeros() -> None:
    """As in the gradient of a maximum, which all equal elements share."""
    check(resolve(f"{Path(__file__).parent / 'cuda_tasks' / 'mean.py'}:backward"), 1, 0, (Family.NORMAL,))
