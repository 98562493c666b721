"""16-bit products with producer warps on the emulator: operands that lie either way, batches, ragged tiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans
from kernelwright.contracts.target import HOPPER
from kernelwright.proposers.templates import make
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Workload
from tests.proposers.templates.emulated import emulated_errors, source_of


def plain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def turned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a @ b.T)


def turned_left(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.T @ b


CASES: dict[str, tuple[Any, tuple[str, ...], tuple[str, ...], dict[str, int], str]] = {
    "whole tiles": (plain, ("m", "k"), ("k", "n"), {"m": 128, "k": 64, "n": 256}, "bfloat16"),
    "shared depths": (plain, ("m", "k"), ("k", "n"), {"m": 200, "k": 520, "n": 264}, "bfloat16"),
    "lines along the depth": (turned, ("m", "k"), ("n", "k"), {"m": 136, "k": 72, "n": 264}, "float16"),
    "lines across the depth": (turned_left, ("k", "m"), ("k", "n"), {"m": 136, "k": 72, "n": 264}, "bfloat16"),
    "odd columns": (turned, ("m", "k"), ("n", "k"), {"m": 67, "k": 400, "n": 131}, "bfloat16"),
    "odd rows": (turned, ("m", "k"), ("n", "k"), {"m": 67, "k": 67, "n": 130}, "bfloat16"),
    "batches": (plain, ("s", "m", "k"), ("s", "k", "n"), {"s": 3, "m": 72, "k": 320, "n": 136}, "bfloat16"),
}


def task_of(name: str) -> tuple[Task, dict[str, int]]:
    reference, left, right, sizes, dtype = CASES[name]
    made = Task(
        reference=reference,
        inputs={"a": tensor(*left), "b": tensor(*right)},
        public=[sizes],
        hidden=dict.fromkeys(sizes, (1, 1024)),
        dtypes=(dtype,),
    )
    return made, sizes


@pytest.mark.parametrize("name", CASES)
def test_a_narrow_product_that_producers_feed_is_right(name: str) -> None:
    task, sizes = task_of(name)
    source = source_of(make(task, "cuda"), {"method": "producers"})
    assert "ProducedNarrowCore" in source
    assert not emulated_errors(task, source, sizes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("set_barrier(full + s, Core::PRODUCERS)", "set_barrier(full + s, Core::PRODUCERS / 2)"),
        ("place(batch, m, n, row, c)", "place(batch, m ^ 1, n, row, c)"),
    ],
    ids=["a stage that is read before it is filled", "rows of results that change places"],
)
def test_what_is_wrong_is_seen(old: str, new: str) -> None:
    task, sizes = task_of("whole tiles")
    source = source_of(make(task, "cuda"), {"method": "producers"})
    assert old in source
    assert emulated_errors(task, source.replace(old, new), sizes)


@pytest.mark.parametrize(("side", "produced"), [(4096, "1"), (1024, "0"), (4095, "0")])
def test_producers_are_for_large_products_whose_rows_are_aligned(side: int, produced: str) -> None:
    task, sizes = task_of("whole tiles")
    form = signature(task, Workload(tuple(dict.fromkeys(sizes, side).items()), "bfloat16"))
    plans = evaluate_plans(split(source_of(make(task, "cuda"), {})).plan, (form,), HOPPER)
    assert isinstance(plans, tuple), plans
    assert dict(plans[0].definitions)["PRODUCED_0"] == produced
