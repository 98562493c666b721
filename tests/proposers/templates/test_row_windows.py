"""Slices, chunks, joins and masks are operands of row programs, and agree with the reference at every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import make
from kernelwright.proposers.templates.graph import Extent
from kernelwright.proposers.templates.nests.index_maps import minus, plus, times
from kernelwright.proposers.templates.patterns.affine import ZERO, Affine, along, least_of
from kernelwright.tasks import Task, integers, tensor
from kernelwright.tasks.backward import derive_backward
from tests.proposers.templates.checking import errors
from tests.proposers.templates.emulated import emulated_errors
from tests.proposers.templates.transformer_tasks import TASKS, masked_softmax, tasks, transformer_task

ODD = {"batch": 2, "heads": 3, "tokens": 7, "half": 21, "queries": 5, "keys": 37, "dim": 9}
ONES = dict.fromkeys(ODD, 1) | {"dim": 2}
ALIKE = {"batch": 2, "heads": 2, "tokens": 4, "half": 32, "queries": 16, "keys": 64, "dim": 8}
FAST = tuple(name for name in TASKS if name != "causal_attention")
GRADIENTS = ("geglu", "swiglu", "rotary", "masked_softmax", "chosen_softmax", "causal_softmax")


def sizes_of(task: Task, sizes: dict[str, int]) -> dict[str, int]:
    return {name: sizes[name] for name in task.hidden}


def source_of(task: Task, contract: str) -> str:
    return make(task, contract).propose(Request(Operator.fresh, 1, 0))[0].candidate.source


def wrong(task: Task, sizes: tuple[dict[str, int], ...] = (ODD, ONES, ALIKE)) -> list[str]:
    source = source_of(task, "cpp")
    return [f"{one}: {error}" for one in sizes for error in errors(task, source, sizes_of(task, one))]


def halved(reference: Callable[..., Any], **more: Any) -> Task:
    return transformer_task(reference, x=tensor("batch", "tokens", "2 * half"), **more)


@pytest.mark.parametrize("name", FAST)
def test_a_row_program_covers_it_and_agrees(name: str) -> None:
    assert "generic" not in make(TASKS[name], "cpp").pattern.split("+")
    assert wrong(TASKS[name]) == []


@pytest.mark.parametrize("name", GRADIENTS)
def test_so_do_its_gradients(name: str) -> None:
    task = derive_backward(TASKS[name])
    assert "generic" not in make(task, "cpp").pattern.split("+")
    assert wrong(task) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["geglu", "rotary", "masked_softmax"])
def test_storage_may_be_narrow(name: str, dtype: str) -> None:
    task = tasks(dtype)[name]
    assert "generic" not in make(task, "cpp").pattern.split("+")
    assert wrong(task) == []


def test_rows_of_a_join_are_loaded_and_stored_in_pieces_of_one_program() -> None:
    (program,) = make(TASKS["rotary"], "cpp").plan.steps
    assert len(program.stores) == 2 and all(store.at is not None for store in program.stores)
    loads = [i for i in program.instructions if i.operation == "load" and i.tensor == "x"]
    assert len(loads) == 2


def test_a_row_that_is_masked_as_a_whole_gives_what_torch_gives() -> None:
    hidden = tensor("batch", 1, 1, "keys", draw=integers(1, 2), dtype="bool")
    task = transformer_task(masked_softmax, x=tensor("batch", "heads", "queries", "keys"), mask=hidden)
    assert wrong(task) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_special_values_reach_what_they_reach_in_torch(value: float) -> None:
    def reference(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        planted = torch.where(torch.arange(x.shape[-1], device=x.device) == 2, value, x)
        return planted.masked_fill(mask, float("-inf")).softmax(-1)

    hidden = tensor("batch", 1, "queries", "keys", draw=integers(0, 2), dtype="bool")
    task = transformer_task(reference, x=tensor("batch", "heads", "queries", "keys"), mask=hidden)
    assert wrong(task, (ODD, ALIKE)) == []


def uneven(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((x[..., :half].exp(), -x, x[..., half:] * 2), -1)


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (2, 3), value=1.5) * 2


def joined_slice(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((x, -x), -1)[..., 1:].relu()


def joined_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((x, x * 2), 1).sigmoid()


def last_columns(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(x.shape[-1], device=x.device) < 40, x, x.exp()).softmax(-1)


def split_heads(x: torch.Tensor) -> torch.Tensor:
    query, key = x.unflatten(-1, (2, -1)).unbind(-2)
    return (query * key).softmax(-1)


def turned(x: torch.Tensor) -> torch.Tensor:
    return x.permute(1, 0, 2).exp() + 1


def pairs(x: torch.Tensor) -> torch.Tensor:
    return (x[:, :, None] * x[:, None].sigmoid()).sum(-1)


def broadcast_middle(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x[:, None] * scale[:, :, None, None])


@pytest.mark.parametrize(
    "reference", [uneven, padded, joined_slice, joined_rows, last_columns, split_heads, turned, pairs]
)
def test_other_views_agree(reference: Callable[..., Any]) -> None:
    assert wrong(halved(reference)) == []


def test_values_that_vary_in_the_middle_agree() -> None:
    task = halved(broadcast_middle, scale=tensor("batch", "heads"))
    assert "generic" not in make(task, "cpp").pattern.split("+")
    assert wrong(task) == []


@pytest.mark.parametrize("name", ["geglu", "rotary", "masked_softmax", "causal_softmax", "normed_half"])
def test_the_same_plans_are_right_in_cuda(name: str) -> None:
    task = TASKS[name]
    source = source_of(task, "cuda")
    for sizes in (ODD, ALIKE):
        assert emulated_errors(task, source, sizes_of(task, sizes)) == []


@pytest.mark.parametrize("name", ["geglu", "rotary"])
def test_so_are_gradients_in_cuda(name: str) -> None:
    task = derive_backward(TASKS[name])
    assert emulated_errors(task, source_of(task, "cuda"), sizes_of(task, ODD)) == []


def test_what_an_index_never_is_below_follows_from_signs_and_not_from_the_sizes_of_a_trace() -> None:
    half, whole, other = Extent(101, 166), Extent(202, 332), Extent(137, 104)
    space = (half,)
    column = along(0, half)
    assert least_of(column, space) == 0
    assert least_of(Affine(half) - column, space) == 1
    assert least_of(Affine(whole) - Affine(half) - column, space) == 1
    assert least_of(Affine(minus(plus(half, half), half)) + ZERO, space) == 1
    assert least_of(Affine(times(half, 3)), space) == 3
    assert least_of(Affine(minus(half, 40)), space) == -39
    assert least_of(Affine(minus(whole, other)), space) is None
