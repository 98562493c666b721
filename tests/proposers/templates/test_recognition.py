"""Which patterns are read from which references, and which references are refused, in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.errors import KernelwrightError
from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import CannotExpressError, TemplateProposer, make
from kernelwright.proposers.templates.patterns.heavy import MatmulStep
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span
from kernelwright.tasks.resolve import resolve
from tests.proposers.templates import references

BUILTIN = {
    "adamw": "pointwise",
    "argmax": "row_reduction",
    "cross_entropy": "row_reduction",
    "cross_entropy:backward": "row_reduction",
    "layernorm": "row_reduction",
    "layernorm:backward": "column_reduction",
    "linear_relu": "product",
    "linear_relu:backward": "column_reduction+product",
    "maxpool2d": "pooling",
    "maxpool2d:backward": "pooling_backward",
    "rmsnorm": "row_reduction",
    "rmsnorm:backward": "column_reduction",
    "softmax": "row_reduction",
    "softmax:backward": "row_reduction",
}


@cache
def read(ref: str) -> TemplateProposer:
    """Tracing a reference takes half a second."""
    return make(resolve(ref), "cpp")


@pytest.mark.parametrize(("ref", "pattern"), BUILTIN.items())
def test_every_builtin_reference_is_recognised(ref: str, pattern: str) -> None:
    assert read(ref).pattern == pattern


def program(ref: str) -> RowProgram:
    (step,) = read(ref).plan.steps
    assert isinstance(step, RowProgram)
    return step


@pytest.mark.parametrize(
    ("ref", "passes"),
    [("softmax", 3), ("softmax:backward", 3), ("layernorm", 3), ("layernorm:backward", 3), ("rmsnorm:backward", 2)],
)
def test_passes_over_a_row_are_as_few_as_its_reductions_need(ref: str, passes: int) -> None:
    assert 1 + max(i.phase for i in program(ref).instructions) == passes


def test_the_gradient_of_a_cross_entropy_computes_one_exponential() -> None:
    costly = [i for i in program("cross_entropy:backward").instructions if i.operation in ("exp", "log")]
    assert [(i.operation, i.span) for i in costly] == [("exp", Span.full)]


def test_scalars_reach_the_kernel_as_arguments() -> None:
    names = str([i.number for i in program("adamw").instructions if i.operation == "number"])
    for scalar in ("lr", "beta1", "beta2", "eps", "weight_decay", "step"):
        assert f"'{scalar}'" in names


def test_bias_and_activation_become_the_last_step_of_the_product() -> None:
    (step,) = read("linear_relu").plan.steps
    assert isinstance(step, MatmulStep) and step.right_transposed and step.epilogue is not None
    assert step.output == "out"


@pytest.mark.parametrize(
    ("task", "pattern"),
    [
        (references.swiglu(), "product"),
        (references.linear_gelu(), "product"),
        (references.convolution(), "convolution+pooling"),
        (references.wide_layernorm(), "row_reduction"),
        (references.scatter(), "pointwise+scatter"),
        (references.matrix(lambda x: x.log_softmax(-1)), "row_reduction"),
        (references.matrix(lambda x: x.sum(0)), "column_reduction"),
        (references.matrix(lambda x: x.mean()), "row_reduction"),
        (references.matrix(lambda x: x.amax(-1)), "row_reduction"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_what_users_write_is_recognised(task: Any, pattern: str) -> None:
    assert make(task, "cpp").pattern == pattern


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (lambda x: x.cumsum(-1), "generic"),
        (lambda x: x.sort(-1).values, "generic"),
        (lambda x: x.argmax(0), "generic"),
        (lambda x: F.avg_pool2d(x[None], 2)[0], "generic+pointwise"),
        (lambda x: torch.bmm(x[None], x.t()[None]), "contraction"),
        (lambda x: x.t().softmax(-1) @ x, "generic+row_reduction+product"),
    ],
)
def test_what_no_fast_pattern_takes_is_generic(function: Callable[..., Any], named: str) -> None:
    assert make(references.matrix(function), "cpp").pattern == named


@pytest.mark.parametrize(
    ("function", "named"), [(torch.linalg.svdvals, "svd"), (lambda x: torch.linalg.inv(x @ x.t()), "inv")]
)
def test_near_misses_are_refused_in_one_line_that_names_the_operation(function: Callable[..., Any], named: str) -> None:
    with pytest.raises(CannotExpressError, match=named) as refusal:
        make(references.matrix(function, "near_miss"), "cpp")
    assert "\n" not in str(refusal.value) and "near_miss" in str(refusal.value)


def test_several_dtypes_and_other_contracts_are_refused() -> None:
    task = references.matrix(lambda x: x * 2)
    with pytest.raises(CannotExpressError, match="one dtype, not float32, bfloat16"):
        make(replace(task, dtypes=("float32", "bfloat16")), "cpp")
    with pytest.raises(KernelwrightError, match="triton"):
        make(task, "triton")


def test_a_size_that_only_hidden_workloads_fix_is_no_constant() -> None:
    """Then a kernel for the hidden size would be wrong, and out of bounds, on the public one."""
    task = replace(resolve("softmax"), public=[{"rows": 1, "cols": 64}], hidden={"rows": (2, 2), "cols": (30, 60)})
    source = make(task, "cuda").propose(Request(Operator.fresh, 1, 0))[0].candidate.source
    assert "x.size(0)" in source
