"""The precision that a candidate's errors look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelwright.judge.oracle.precision import PrecisionClass, precision_class
from kernelwright.tasks import Chosen, Family, Task, tensor
from kernelwright.tasks.drawing import draw_inputs


def make(reference: Callable[..., Any], *dims: tuple[int, ...], dtype: str = "float32", **more: Any) -> Task:
    inputs = {name: tensor(*shape) for name, shape in zip("ab", dims, strict=False)}
    return Task(reference=reference, inputs=inputs, public=[{}], hidden={}, name="t", dtypes=(dtype,), **more)


def class_of(task: Task, kernel: Callable[..., torch.Tensor]) -> str:
    workload = task.public_workloads()[0]
    inputs = draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(0))
    return precision_class(task, inputs, {"out": kernel(*inputs.values())}, workload)


def tf32(x: torch.Tensor) -> torch.Tensor:
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


PRODUCT = make(torch.matmul, (40, 500), (500, 60))
SOFTMAX = make(softmax, (40, 500))


@pytest.mark.parametrize("task", [PRODUCT, SOFTMAX], ids=["product", "softmax"])
def test_the_format_of_the_inputs_is_named(task: Task) -> None:
    reference = task.reference
    assert class_of(task, reference) == "float32"
    assert class_of(task, lambda *xs: reference(*(x.double() for x in xs)).float()) == "float32"
    assert class_of(task, lambda *xs: reference(*map(tf32, xs))) == "tf32"
    assert class_of(task, lambda *xs: reference(*(x.half().float() for x in xs))) == "tf32"
    assert class_of(task, lambda *xs: reference(*(x.bfloat16().float() for x in xs))) == "bfloat16"


def test_a_long_sum_from_left_to_right_is_still_single_precision() -> None:
    task = make(torch.matmul, (8, 4096), (4096, 32))

    def sequential(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(8, 32)
        for k in range(4096):
            total += x[:, k : k + 1] * y[k]
        return total

    assert class_of(task, sequential) == "float32"


def test_results_stored_in_fewer_bits_look_like_them() -> None:
    assert class_of(SOFTMAX, lambda x: softmax(x).bfloat16().float()) == "bfloat16"


def test_a_range_that_overflows_tells_half_precision_from_tf32() -> None:
    task = make(lambda x, y: (x * 1e-6) @ (y * 1e3), (40, 500), (500, 60))

    def half(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * 1e-6).half().float() @ (y * 1e3).half().float()

    assert class_of(task, half) in ("float16", "bfloat16")


def test_double_precision_is_told_from_single() -> None:
    task = make(torch.matmul, (40, 500), (500, 60), dtype="float64")
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((40, 500), (500, 60)))

    def named(result: torch.Tensor) -> str:
        return precision_class(task, {"a": x, "b": y}, {"out": result}, task.public_workloads()[0])

    assert named(x @ y) == "float64"
    assert named((x.float() @ y.float()).double()) == "float32"


def test_where_the_format_does_not_show_nothing_is_said() -> None:
    narrow = make(softmax, (40, 500), dtype="bfloat16")
    assert class_of(narrow, softmax) == "indistinguishable"
    indices = make(lambda x: x.argmax(-1), (40, 500), comparators={"out": Chosen(source="a")})
    assert class_of(indices, lambda x: x.argmax(-1)) is PrecisionClass.indistinguishable
