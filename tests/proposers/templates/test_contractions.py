"""Which sums of products are contractions, and what their subscripts say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.proposers.templates.cut import make_plan
from kernelwright.proposers.templates.patterns.contractions import ContractionForm, ContractionStep
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.patterns.rows import RowProgram
from kernelwright.proposers.templates.trace import read_graph
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.backward import derive_backward

SIZES = {"b": 2, "c": 6, "n": 16, "f": 8}
RANGES = {"b": (1, 4), "c": (4, 8), "n": (8, 24), "f": (1, 9)}


def task_of(function: Callable[..., Any], inputs: dict[str, Any]) -> Task:
    used = {dim for given in inputs.values() for dim in given.dims if isinstance(dim, str)}
    ranges = {name: RANGES[name] for name in SIZES if name in used}
    return Task(function, inputs, [{name: SIZES[name] for name in ranges}], ranges, "contracted")


def form(function: Callable[..., Any], **inputs: tuple[Any, ...]) -> ContractionForm:
    task = task_of(function, {name: tensor(*shape) for name, shape in inputs.items()})
    steps = [step for step in make_plan(read_graph(task)).steps if isinstance(step, ContractionStep)]
    assert len(steps) == 1
    return steps[0].form


def roles(found: ContractionForm) -> str:
    short = {"batch": "b", "first": "1", "second": "2", "depth": "d"}
    return "".join(short[axis.role] for axis in found.axes)


def test_a_stack_of_products_has_a_batch_axis_and_one_axis_for_each_operand() -> None:
    found = form(lambda x, y: x @ y.transpose(1, 2), x=("b", "c", "n"), y=("b", "f", "n"))
    assert roles(found) == "b12d"
    assert not any(operand.guarded for operand in found.operands)
    assert found.operands[1].axes == {0, 2, 3}, "the transpose is read where it lies"


def test_a_window_reads_at_a_multiple_of_the_place_and_is_guarded_where_it_is_padded() -> None:
    found = form(lambda x, w: F.conv1d(x, w, stride=2, padding=3, dilation=4), x=("b", "c", "n"), w=("f", "c", 3))
    assert roles(found) == "121dd"
    image, weight = found.operands
    slid = image.subscripts[2]
    assert [c.literal for _, c in slid.terms] == [2, 4] and slid.constant == -3 and slid.divisor == 1
    assert slid.guarded and not weight.guarded


def test_a_transposed_convolution_divides_by_its_stride() -> None:
    found = form(lambda x, w: F.conv_transpose1d(x, w, stride=3, padding=1), x=("b", "c", "n"), w=("c", "f", 5))
    slid = found.operands[0].subscripts[2]
    assert slid.divisor == 3 and [c.literal for _, c in slid.terms] == [1, -1] and slid.constant == 1


def test_groups_are_a_batch_axis() -> None:
    found = form(lambda x, w: F.conv2d(x, w, groups=4), x=("b", 4, "n", "n"), w=(8, 1, 3, 3))
    assert roles(found) == "1b211ddd"
    assert found.shape[1] == found.axes[3].extent * found.axes[4].extent, "rows end before the places"


@pytest.mark.parametrize("rank", [1, 3])
def test_both_gradients_of_a_convolution_are_contractions(rank: int) -> None:
    convolution = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    inputs = {"x": tensor("b", "c", *("n",) * rank), "w": tensor("f", "c", *(3,) * rank)}
    task = derive_backward(task_of(lambda x, w: convolution(x, w, padding=1), inputs))
    steps = [step for step in make_plan(read_graph(task)).steps if isinstance(step, ContractionStep)]
    assert len(steps) == 2
    assert {len(step.form.of("depth")) for step in steps} == {1 + rank}


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x: (x[:, :, None] * x.tril()[:, None]).sum(-1), RowProgram),  # a sum that torch wrote, over products
        (lambda x: F.avg_pool1d(x, 2), NestStep),
    ],
)
def test_sums_of_one_operand_are_not_contractions(function: Callable[..., Any], kind: type) -> None:
    task = task_of(function, {"x": tensor("b", "n", "n")})
    steps = make_plan(read_graph(task)).steps
    assert not any(isinstance(step, ContractionStep) for step in steps)
    assert any(isinstance(step, kind) for step in steps)


def test_a_guard_that_is_not_the_edge_of_a_tensor_is_stored_before_the_product() -> None:
    found = form(lambda x: torch.bmm(x.tril(), x), x=("b", "n", "n"))
    assert not any(operand.guarded for operand in found.operands)
