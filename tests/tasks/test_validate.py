"""Faults that only show when the reference runs are found before anybody searches for a kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelwright.tasks import Family, TaskError, normal, tensor
from kernelwright.tasks.validate import validate

from .samples import small_task


def changes_x(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
    x.mul_(weight)
    return x + 1


def changes_nothing(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
    return x * weight


def half_done(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
    return (x.float() * weight.float()).to(x.dtype)


def summed_in_float32(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
    return (x * weight).sum(-1, dtype=torch.float32)


def grows(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.exp(18 * x) * weight


def positive_part(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
    return (x * weight)[x > 0]


def wrong_vjp(x: torch.Tensor, weight: torch.Tensor, factor: float, grad: torch.Tensor) -> Any:
    return grad * weight, (grad * x * factor).sum(0)


FAULTY: list[tuple[dict[str, Any], str]] = [
    ({"reference": lambda x, w, f: x @ w @ w}, "the reference raised: RuntimeError"),
    ({"reference": lambda x, w, f: torch.dropout(x, 0.5, True) * w}, "draws random numbers"),
    ({"reference": changes_x}, "changes 'x': name it in inout"),
    ({"reference": changes_nothing, "inout": ("x",)}, "never changes 'x'"),
    ({"reference": lambda x, w, f: x.T}, "output 'out' shares memory with 'x'"),
    ({"reference": half_done}, "casts float64 to float32"),
    ({"reference": summed_in_float32}, "casts float64 to float32"),
    ({"reference": lambda x, w, f: torch.ones(x.shape) * 3}, "is float32 for float64 inputs"),
    ({"reference": grows}, "is not finite for family"),
    ({"reference": lambda x, w, f: (x - x) / (w - w)}, "is not finite for family normal"),
    ({"vjp": wrong_vjp}, "vjp gives a wrong grad_x"),
    ({"hidden": {"rows": (8, 8), "cols": (16, 16)}, "public": [{"rows": 8, "cols": 16}]}, "widen them"),
]


@pytest.mark.parametrize(("changes", "message"), FAULTY, ids=[message for _, message in FAULTY])
def test_a_faulty_reference_is_found(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError) as error:
        validate(small_task(**changes))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_shape_that_depends_on_data_is_found() -> None:
    with pytest.raises(TaskError, match="its shape must follow from the sizes alone"):
        validate(small_task(reference=positive_part))


def test_every_dtype_must_stay_finite() -> None:
    def grown(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
        return x * weight * 3e4

    validate(small_task(reference=grown))
    with pytest.raises(TaskError, match="rows=4 cols=4 float16"):
        validate(small_task(reference=grown, dtypes=("float32", "float16")))


def test_a_good_task_passes() -> None:
    validate(small_task())


def test_a_result_may_be_a_view_at_some_sizes() -> None:
    """With a single row or column, torch has nothing to copy."""
    task = small_task(
        reference=lambda x: x.t().contiguous(),
        inputs={"x": tensor("rows", "cols")},
        public=[{"rows": 1, "cols": 8}, {"rows": 6, "cols": 8}],
        hidden={"rows": (1, 16), "cols": (1, 16)},
    )
    validate(task)


def test_a_family_that_overflows_may_be_left_out() -> None:
    validate(small_task(reference=grows, families=(Family.NORMAL, Family.SMALL)))


def test_a_right_vjp_passes_even_at_a_kink() -> None:
    def rectified(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ weight.T)

    def vjp(x: torch.Tensor, weight: torch.Tensor, kept: torch.Tensor, grad: torch.Tensor) -> Any:
        grad = grad * (kept > 0)
        return grad @ weight, grad.T @ x

    validate(
        small_task(
            reference=rectified,
            inputs={"x": tensor("rows", "cols"), "weight": tensor("rows", "cols", draw=normal(0, 0.1))},
            saved={"kept": rectified},
            vjp=vjp,
        )
    )
