"""Products of shortened factors fail on rows of one or two terms, and every honest product passes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[2]))

from corpus.arithmetic import DOWNCASTS, HONEST
from kernelwright.judge.oracle.right.compare import check
from kernelwright.judge.oracle.right.tolerance import Expectation, expectations
from kernelwright.judge.oracle.special_values import ValueKind, draw_special, special_expectations, special_values
from kernelwright.judge.oracle.special_values.finding import OCTAVES
from kernelwright.tasks import Task, normal, tensor
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs, task_products
from kernelwright.tasks.products import Operand, probe_rows_of

SENTINEL = 0x7FF17FF2
Tensor = torch.Tensor


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def linear_task() -> Task:
    inputs = {"x": tensor(64, 256), "w": tensor(48, 256, draw=normal(0.0, 0.05)), "b": tensor(48, draw=normal())}
    return Task(reference=F.linear, inputs=inputs, public=[{}], hidden={}, name="linear")


LINEAR = linear_task()
(WORKLOAD,) = LINEAR.public_workloads()
SPLIT = ("2xTF32, left", "2xTF32, right", "bf16x3", "bf16x4", "fp16x2, left", "fp16x3", "inner TF32")
WHOLE = ("library", "sequential", "reversed", "lanes", "3xTF32", "3xTF32, promoted", "bf16x6", "bf16x9")


def verdicts(inputs: dict[str, Tensor], expected: Expectation | None = None) -> dict[str, bool]:
    expected = expected or expectations(LINEAR, inputs, WORKLOAD)["out"]
    ways = {name: HONEST[name] for name in WHOLE} | {name: DOWNCASTS[name] for name in SPLIT}
    results = {name: way.multiply(inputs["x"], inputs["w"].t()) + inputs["b"] for name, way in ways.items()}
    return {name: check(expected, result, SENTINEL) is None for name, result in results.items()}


@pytest.mark.parametrize("seed", range(3))
def test_split_factors_fail_and_honest_products_pass(seed: int) -> None:
    passed = verdicts(draw_inputs(LINEAR, WORKLOAD, Family.NORMAL, torch.Generator().manual_seed(seed)))  # type: ignore[arg-type]
    assert passed == {**dict.fromkeys(WHOLE, True), **dict.fromkeys(SPLIT, False)}


def test_wide_products_show_every_split_too() -> None:
    specials = [special for special in special_values(LINEAR) if special.kind is ValueKind.products]
    assert len(specials) == len(OCTAVES)
    for special in specials:
        inputs = draw_special(LINEAR, WORKLOAD, special, Family.NORMAL, torch.Generator().manual_seed(0))
        expected = special_expectations(LINEAR, inputs, WORKLOAD, special)["out"]
        passed = verdicts(inputs, expected)  # type: ignore[arg-type]
        assert passed == {**dict.fromkeys(WHOLE, True), **dict.fromkeys(SPLIT, False)}


def test_wide_products_need_products_of_inputs_that_are_not_constant() -> None:
    task = Task(reference=torch.exp, inputs={"x": tensor(8, 8)}, public=[{}], hidden={}, name="exp")
    for other in (task, replace(LINEAR, constant=("x",))):
        assert not [special for special in special_values(other) if special.kind is ValueKind.products]


def test_a_few_rows_are_probe_rows_and_the_draw_is_repeatable() -> None:
    one, two = (draw_inputs(LINEAR, WORKLOAD, Family.NORMAL, torch.Generator().manual_seed(7))["x"] for _ in range(2))
    assert isinstance(one, Tensor) and isinstance(two, Tensor) and torch.equal(one, two)
    rows = probe_rows_of(Operand("x", (1,)), one)
    assert 1 <= int(rows.sum()) <= 4


def test_operands_are_found_in_views_and_gradients() -> None:
    assert task_products(LINEAR, WORKLOAD).operands == (Operand("x", (1,)),)
    backward = derive_backward(LINEAR)
    found = task_products(backward, backward.public_workloads()[0]).operands
    assert set(found) == {Operand("grad_out", (1,)), Operand("x", (0,))}
    inputs = {"q": tensor(4, 32, 16), "k": tensor(4, 24, 16)}
    scores = Task(
        reference=lambda q, k: torch.einsum("bqd,bkd->bqk", q, k), inputs=inputs, public=[{}], hidden={}, name="scores"
    )
    assert task_products(scores, scores.public_workloads()[0]).operands == (Operand("q", (2,)),)


def test_products_of_computed_values_have_no_operand() -> None:
    task = Task(
        reference=lambda x, w: torch.tanh(x) @ w, inputs={"x": tensor(8, 16), "w": tensor(16, 8, draw=normal())},
        public=[{}], hidden={}, name="t",
    )  # fmt: skip
    found = task_products(task, task.public_workloads()[0])
    assert found.operands == () and found.depth == 16
