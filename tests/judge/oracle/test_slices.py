"""Trials that are judged in slices: which references can be cut, and that slices say what the whole says."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from kernelwright.judge.oracle.ledger import Ledger
from kernelwright.judge.oracle.needs import Slicing, plan_memory
from kernelwright.judge.oracle.pool import ValuePool
from kernelwright.judge.oracle.right.compare import MismatchKind, check
from kernelwright.judge.oracle.separable import separable_axes
from kernelwright.judge.oracle.sliced import checksum
from kernelwright.judge.oracle.workload_arena import sentinel_word
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.resolve import declared
from kernelwright.tasks.validate import validate

F = torch.nn.functional
WORD = sentinel_word(random.Random(0), halves_alike=True)
SIZES = {"rows": (2, 96), "cols": (8, 160)}


def made(reference: Callable[..., torch.Tensor], **inputs: tuple[str, ...]) -> Task:
    declared_inputs = {name: tensor(*dims) for name, dims in (inputs or {"x": ("rows", "cols")}).items()}
    task = Task(reference, declared_inputs, [{"rows": 48, "cols": 96}], SIZES, name="made")
    validate(task)
    return task


def axis_of(task: Task) -> int | None:
    axes = separable_axes(task, task.public_workloads()[0])
    return None if axes is None else axes.results["out"]


CUT: dict[str, Callable[..., torch.Tensor]] = {
    "pointwise": lambda x: F.gelu(x) * 2 + 1,
    "rows": lambda x: torch.softmax(x, -1),
    "two views": lambda x: (x.view(x.shape[0], -1, 2).sum(-1).unsqueeze(1) + 1).squeeze(1),
    "one weight for all": lambda x: x @ torch.ones(x.shape[1], 3, dtype=x.dtype),
    "its own zeros": lambda x: x + torch.zeros(x.shape[0], 1, dtype=x.dtype),
    "a norm": lambda x: F.layer_norm(x, (x.shape[1],)),
    "in place": lambda x: x.clone().relu_().mul_(2),
}
MIXED: dict[str, Callable[..., torch.Tensor]] = {
    "a mean over all": lambda x: x - x.mean(),
    "a softmax over rows": lambda x: torch.softmax(x, 0),
    "the number of a row": lambda x: x + torch.arange(x.shape[0]).unsqueeze(1),
    "how many rows there are": lambda x: x / x.shape[0],
    "its neighbours": lambda x: x + x.roll(1, 0),
    "the first row": lambda x: x + x[:1],
    "a batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "a running sum": lambda x: x.cumsum(0),
}


@pytest.mark.parametrize("name", CUT)
def test_a_reference_that_keeps_rows_apart_is_cut(name: str) -> None:
    assert axis_of(made(CUT[name])) == 0


@pytest.mark.parametrize("name", MIXED)
def test_a_reference_that_mixes_rows_is_not(name: str) -> None:
    assert axis_of(made(MIXED[name])) is None


def test_the_last_axis_is_not_cut_because_tolerances_look_at_rows() -> None:
    assert axis_of(made(lambda x: x.sum(0, keepdim=True).expand(4, -1) * 1.0)) is None


def pools(task: Task, slices: int) -> tuple[ValuePool, ValuePool]:
    workload = task.public_workloads()[0]
    axes = separable_axes(task, workload)
    assert axes is not None
    whole = ValuePool(task, workload, b"key")
    return whole, ValuePool(task, workload, b"key", slicing=Slicing(axes, slices))


@pytest.mark.parametrize("name", ["rmsnorm", "linear_relu", "maxpool2d", "argmax", "adamw"])
def test_slices_accept_and_reject_as_the_whole_does(name: str) -> None:
    task = declared(name)
    whole, cut = pools(task, 3)
    for family in task.families[:2]:
        one, other = whole.draw(family), cut.draw(family)
        assert other.sliced is not None and not other.expectations
        right = {key: value.contiguous() for key, value in reference(task, one.inputs).items()}
        assert other.sliced.check(other.inputs, right, WORD) is None
        first = task.result_names[0]
        wrong = {**right, first: right[first].clone()}
        flat = wrong[first].view(-1)
        flat[-1] = flat[-1] + 1 if flat.dtype.is_floating_point else flat[-1] - 1000
        expected = check(one.expectations[first], wrong[first], WORD)
        found = other.sliced.check(other.inputs, wrong, WORD)
        assert expected is not None and found is not None
        assert (found[1].kind, found[1].index, found[1].wrong) == (expected.kind, expected.index, expected.wrong)
        assert found[1].total == expected.total


def reference(task: Task, inputs: dict[str, object]) -> dict[str, torch.Tensor]:
    from kernelwright.tasks.reference import run_reference

    return run_reference(task, inputs)  # type: ignore[arg-type]


def test_what_was_not_written_is_found_in_every_slice() -> None:
    task = declared("softmax")
    _, cut = pools(task, 4)
    item = cut.draw(task.families[0])
    right = reference(task, item.inputs)["out"].contiguous()
    right.view(torch.int32)[::2] = WORD - (1 << 32) if WORD >= 1 << 31 else WORD
    assert item.sliced is not None
    found = item.sliced.check(item.inputs, {"out": right}, WORD)
    assert found is not None and found[1].kind is MismatchKind.unwritten
    assert found[1].unwritten == right[::2].numel()


def test_a_checksum_sees_a_single_bit() -> None:
    for dtype in (torch.float32, torch.float16, torch.bool):
        value = torch.randn(3, 1001).to(dtype)
        other = value.clone()
        flat = other.view(torch.uint8).view(-1)
        flat[-1] ^= 1
        assert checksum(value, 5) == checksum(value.clone(), 5) != checksum(other, 5)


def test_a_judging_is_cut_only_where_the_whole_does_not_fit() -> None:
    task = declared("rmsnorm")
    workload = task.public_workloads()[0]
    form = signature(task, workload)
    whole = plan_memory(task, workload, form, Ledger(1 << 40), 1)
    assert whole.slicing is None
    cut = plan_memory(task, workload, form, Ledger(whole.need.total - 1), 1)
    assert cut.slicing is not None and cut.need.total < whole.need.total
    mixed = made(MIXED["a mean over all"])
    workload = mixed.public_workloads()[0]
    refused = plan_memory(mixed, workload, signature(mixed, workload), Ledger(1 << 20), 1)
    assert refused.slicing is None and refused.need.total > 1 << 20


def test_half_of_a_device_is_judged_in_slices() -> None:
    """Inputs and outputs alike, beside one baseline: nothing is computed for this."""
    task = Task(
        lambda x: torch.nn.functional.gelu(x),
        {"x": tensor("rows", "cols")},
        [{"rows": 4096, "cols": 393216}],
        {"rows": (2048, 8192), "cols": (196608, 786432)},
        name="large",
    )
    workload = task.public_workloads()[0]
    tensors = 2 * 4096 * 393216 * 4
    plan = plan_memory(task, workload, signature(task, workload), Ledger(2 * tensors + (1 << 30)), 1)
    assert plan.slicing is not None and plan.need.total <= 2 * tensors + (1 << 30)
