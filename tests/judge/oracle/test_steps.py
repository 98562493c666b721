"""Fused operations taken apart give what the whole gives, and a sum inside of one is known to lose as any sum."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelwright.judge.oracle.right.compare import check
from kernelwright.judge.oracle.right.fused import PARTS
from kernelwright.judge.oracle.right.operations import lost
from kernelwright.judge.oracle.right.tolerance import expectations
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.model import Workload

aten = torch.ops.aten
UNIT = 2.0**-24


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def norm_arguments(train: bool, weight: torch.Tensor | None) -> tuple[Any, ...]:
    x = drawn(4, 3, 5, 7)
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
    kept = (mean, (var + 1e-5).rsqrt()) if train else (None, None)
    running = (drawn(3) + 0.5, drawn(3).square() + 0.1)
    return drawn(4, 3, 7, 5).transpose(2, 3).contiguous(), x, weight, *running, *kept, train, 1e-5, [True, True, True]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("weight", [None, drawn(3)])
def test_the_parts_of_a_batch_norms_backward(train: bool, weight: torch.Tensor | None) -> None:
    arguments = norm_arguments(train, weight)
    operation = aten.native_batch_norm_backward.default
    for part, whole in zip(PARTS[operation](*arguments), operation(*arguments), strict=True):
        torch.testing.assert_close(part, whole)


@pytest.mark.parametrize("weight", [None, drawn(6)])
def test_the_parts_of_a_group_norms_backward(weight: torch.Tensor | None) -> None:
    x, grad = drawn(4, 6, 5), drawn(5, 4, 6).permute(1, 2, 0).contiguous()
    _, mean, scale = aten.native_group_norm(x, weight, None, 4, 6, 5, 3, 1e-5)
    operation, wanted = aten.native_group_norm_backward.default, [True, weight is not None, weight is not None]
    arguments = grad, x, mean, scale, weight, 4, 6, 5, 3, wanted
    for part, whole in zip(PARTS[operation](*arguments), operation(*arguments), strict=True):
        if whole is not None or part is not None:
            torch.testing.assert_close(part, whole)


def test_the_gradient_of_a_convolutions_bias_loses_what_the_same_sum_does() -> None:
    grad = drawn(8, 3, 20, 20).float() + 4
    bias = grad.sum((0, 2, 3))
    of_sum = lost("sum", (grad, (0, 2, 3)), bias, UNIT)
    of_bias = lost("convolution_backward", (grad, drawn(1), drawn(1)), bias, UNIT)
    assert of_sum is not None and of_bias is not None
    assert torch.equal(of_bias, of_sum) and bool((of_bias > 0).all())


def test_other_gradients_of_a_convolution_are_no_such_sums() -> None:
    grad = drawn(8, 3, 20, 20)
    assert lost("convolution_backward", (grad, grad, grad), grad, UNIT) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gelu_by_erfc_is_right_in_rows_where_the_reference_cancels_to_zero(dtype: str) -> None:
    """1 + erf is exactly zero far in the tail; the true value is not, and a more exact kernel has it."""
    task = Task(
        reference=torch.nn.functional.gelu,
        inputs={"x": tensor("rows", "cols")},
        public=[{"rows": 8, "cols": 32}],
        hidden={"rows": (1, 64), "cols": (1, 64)},
        dtypes=(dtype,),
        name="gelu",
    )
    x = torch.linspace(-14.0, -7.0, 8, dtype=getattr(torch, dtype))[:, None].repeat(1, 32)
    workload = Workload((("rows", 8), ("cols", 32)), dtype)
    expected = expectations(task, {"x": x}, workload)["out"]
    exact = (0.5 * x.double() * torch.erfc(-x.double() * 0.5**0.5)).to(x.dtype)
    assert check(expected, exact, 0x7FF17FF2) is None
