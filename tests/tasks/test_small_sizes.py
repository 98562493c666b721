"""Which workloads are small enough to be computed while a task is opened."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelwright.tasks import Task, tensor
from kernelwright.tasks.small_sizes import MOST_OPERATIONS, is_light, trial_workload

SIDE = 1290  # its cube is a little above the limit


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def addition(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


def task(reference: Any, side: int, dtype: str = "float16") -> Task:
    inputs = {"a": tensor("n", "n"), "b": tensor("n", "n")}
    return Task(reference, inputs=inputs, public=[{"n": side}], hidden={"n": (side // 2, side)}, dtypes=(dtype,))


def light(chosen: Task) -> bool:
    return is_light(chosen, chosen.public_workloads()[0])


def test_a_product_of_few_bytes_and_many_operations_is_not_light() -> None:
    assert 2 * SIDE**3 > MOST_OPERATIONS
    assert not light(task(product, SIDE))
    assert light(task(addition, SIDE))
    assert light(task(product, SIDE // 2))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_such_a_product_is_tried_out_at_a_small_size(dtype: str) -> None:
    chosen = task(product, 8 * SIDE, dtype)
    found = trial_workload(chosen)
    assert found is not None
    assert is_light(chosen, found)
    assert found.size_map["n"] < SIDE


def test_operations_that_cannot_be_followed_without_values_count_nothing() -> None:
    def looks(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b if a.max() > 0 else a - b

    assert light(task(looks, 64))
