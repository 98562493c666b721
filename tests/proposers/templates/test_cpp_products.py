"""Products, stacks of products, convolutions of every kind and their gradients on the CPU agree with torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates.cpp import contraction, windows
from kernelwright.proposers.templates.patterns.contractions import ContractionStep
from kernelwright.proposers.templates.proposer import make
from kernelwright.tasks import Task, custom, tensor
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs, signature
from kernelwright.tasks.model import Workload

from .checking import aligned, call, compiled, errors

Sizes = dict[str, int]


def task_of(function: Callable[..., Any], inputs: dict[str, Any], sizes: Sizes, results: int = 1, **how: Any) -> Task:
    names = tuple(f"out{n}" for n in range(results)) if results > 1 else ("out",)
    ranges = {name: (1, 4 * size) for name, size in sizes.items()}
    return Task(function, inputs, [sizes], ranges, "products", outputs=names, **how)


def first_source(task: Task) -> str:
    """The first proposal, in which nothing is left to generic loops."""
    proposer = make(task, "cpp")
    steps = [step for step in proposer.plan.steps if isinstance(step, ContractionStep)]
    assert all(contraction.covered(step) for step in steps)
    return proposer.propose(Request(Operator.fresh, 1, 0))[0].candidate.source


def convolutions(
    x: torch.Tensor, w: torch.Tensor, turned: torch.Tensor, deep: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    line, cube = x[:, :, 0], x[:, :, None]
    return (
        F.conv2d(x, w, stride=2, padding=(2, 1), dilation=(1, 2)).relu(),
        F.conv_transpose2d(x, turned, stride=(3, 2), padding=1, output_padding=(1, 0), dilation=(2, 1)),
        F.conv2d(x, deep, stride=2, padding=1, groups=4),
        F.conv1d(line, w[:, :, 0], padding=2),
        F.conv3d(cube, w[:, :, None], padding=(0, 1, 1)),
    )


def test_convolutions_of_every_kind_agree() -> None:
    """Strides that leave phases without a tap, groups of one filter, lines shorter and longer than a tile."""
    inputs = {
        "x": tensor("b", 4, "h", "w"),
        "w": tensor("f", 4, 3, 3),
        "turned": tensor(4, "f", 2, 2),
        "deep": tensor(8, 1, 3, 3),
    }
    sizes = {"b": 2, "h": 9, "w": 37, "f": 21}
    task = task_of(convolutions, inputs, sizes, 5)
    source = first_source(task)
    for one in (sizes, {"b": 1, "h": 5, "w": 7, "f": 1}, {"b": 3, "h": 4, "w": 70, "f": 50}):
        assert not errors(task, source, one)


def stacks(x: torch.Tensor, y: torch.Tensor, heads: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x @ y.transpose(1, 2),
        torch.einsum("abc,adc->abd", x, y) * 0.5 + 1.0,
        torch.einsum("abcd,aecd->be", heads, heads),
        torch.einsum("sbhd,tbhd->bhst", heads, heads),
        x[:, :1] @ y.transpose(1, 2),
    )


def test_stacks_of_products_agree() -> None:
    """Any order of axes, several summed over, and single rows."""
    inputs = {"x": tensor("a", "b", "c"), "y": tensor("a", "d", "c"), "heads": tensor("a", "b", "d", "c")}
    sizes = {"a": 3, "b": 19, "c": 33, "d": 5}
    task = task_of(stacks, inputs, sizes, 5)
    source = first_source(task)
    for one in (sizes, {"a": 1, "b": 1, "c": 1, "d": 1}, {"a": 2, "b": 40, "c": 70, "d": 17}):
        assert not errors(task, source, one)


@pytest.mark.parametrize(
    ("function", "weight"),
    [
        (lambda x, w: F.conv1d(x[:, :, 0], w[..., 0], stride=2, padding=1), ("f", 4, 3, 3)),
        (lambda x, w: F.conv2d(x, w, padding=1, groups=2), (6, 2, 3, 3)),
        pytest.param(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (4, 5, 3, 3), marks=pytest.mark.slow),
        pytest.param(
            lambda x, w: F.conv3d(x[:, :, None], w[:, :, None], padding=1), ("f", 4, 3, 3), marks=pytest.mark.slow
        ),
    ],
    ids=["line", "groups", "transposed", "cube"],
)
def test_gradients_of_convolutions_agree(function: Callable[..., Any], weight: tuple[Any, ...]) -> None:
    sizes = {"b": 2, "h": 9, "w": 20} | ({"f": 9} if "f" in weight else {})
    task = derive_backward(task_of(function, {"x": tensor("b", 4, "h", "w"), "w": tensor(*weight)}, sizes))
    source = first_source(task)
    assert not errors(task, source, sizes)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bits_are_storage_only(dtype: str) -> None:
    """Results are those of float32 arithmetic on the stored values, rounded once."""

    def reference(x: torch.Tensor, y: torch.Tensor, image: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x @ y, F.conv2d(image, w, padding=1)

    inputs = {
        "x": tensor("m", "k"),
        "y": tensor("k", "n"),
        "image": tensor("b", 3, "m", "n"),
        "w": tensor(20, 3, 3, 3),
    }
    sizes = {"m": 19, "k": 200, "n": 37, "b": 2}
    task = task_of(reference, inputs, sizes, 2, dtypes=(dtype,))
    source = first_source(task)
    workload = Workload(tuple(sizes.items()), dtype)
    drawn = draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(0))
    form = signature(task, workload)
    tensors = {name: aligned(value) for name, value in drawn.items() if isinstance(value, torch.Tensor)}
    for spec in form.outputs:
        tensors[spec.name] = aligned(torch.full(spec.shape, math.nan, dtype=getattr(torch, spec.dtype)))
    call(compiled(source, form), form, tensors)
    exact = reference(*(drawn[name].double() for name in inputs))
    for name, wanted in zip(("out0", "out1"), exact, strict=True):
        unit = torch.finfo(getattr(torch, dtype)).eps
        gap = (tensors[name].double() - wanted).abs()
        assert bool((gap <= 0.51 * unit * wanted.abs() + 1e-5).all()), "more than one rounding"


def _special(generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, sizes: Sizes) -> torch.Tensor:
    made = torch.randn(*shape, generator=generator, dtype=dtype)
    made.view(-1)[0], made.view(-1)[-1] = math.inf, math.nan
    return made


@pytest.mark.parametrize("special", ["x", "w"])
def test_what_is_not_finite_goes_where_torch_lets_it_go(special: str) -> None:
    """torch multiplies the padding of a convolution, and leaves out what is outside for a transposed one."""

    def reference(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.conv2d(x, w, padding=1, stride=2), F.conv_transpose2d(x, w, padding=1, stride=2)

    shapes: dict[str, tuple[Any, ...]] = {"x": ("b", 4, "h", "w_"), "w": (4, 4, 3, 3)}
    inputs = {
        name: tensor(*shape, draw=custom(_special)) if name == special else tensor(*shape)
        for name, shape in shapes.items()
    }
    sizes = {"b": 2, "h": 9, "w_": 11}
    task = task_of(reference, inputs, sizes, 2)
    assert not errors(task, first_source(task), sizes)


def test_a_long_depth_is_shared_by_threads() -> None:
    task = task_of(lambda x, y: x.t() @ y, {"x": tensor("k", "m"), "y": tensor("k", "n")}, {"k": 9000, "m": 5, "n": 9})
    assert not errors(task, first_source(task), {"k": 40000, "m": 5, "n": 9})


def test_what_is_neither_plain_nor_a_window_stays_generic() -> None:
    def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.double() @ y.double()

    inputs = {"x": tensor("a", "b", "c"), "y": tensor("a", "c", "d")}
    proposer = make(task_of(reference, inputs, {"a": 3, "b": 9, "c": 33, "d": 5}), "cpp")
    (step,) = (step for step in proposer.plan.steps if isinstance(step, ContractionStep))
    assert not contraction.covered(step) and windows.parsed(step.form) is None
    assert "loops over index maps" in proposer.propose(Request(Operator.fresh, 1, 0))[0].note
