"""Generic steps: whatever moves, looks up, reduces, slides, scans or ranks agrees with the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import make
from kernelwright.proposers.templates.trace import read_graph
from kernelwright.tasks import Task, integers, tensor
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Workload
from tests.proposers.templates.checking import aligned, call, compiled, errors

Reference = Callable[..., Any]
CUBE = ("a", "b", "c")
RANGES = {"a": (1, 9), "b": (4, 60), "c": (8, 60)}
SIZES = ({"a": 3, "b": 7, "c": 18}, {"a": 1, "b": 4, "c": 33})


def cube(reference: Reference, outputs: int, name: str, **more: Any) -> Task:
    """A reference of one tensor of three dimensions, and of others; several results in one kernel build faster."""
    inputs = {"x": tensor(*CUBE), **more}
    names = tuple(f"out{n}" for n in range(outputs)) if outputs > 1 else ("out",)
    return Task(reference, inputs, [dict(SIZES[0])], RANGES, name, outputs=names)


def moved(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    one, two = x.chunk(2, -1)
    return (
        x[:, 1:-1:2, 3:],
        x[..., -2],
        torch.cat([x, x.flip(2) * 2, x[..., :1]], 2),
        torch.stack([x, -x], 1),
        F.pad(x, (2, 1, 0, 3), value=-1.5),
        F.pad(x, (3, 2), mode="reflect"),
        F.pad(x, (1, 4), mode="replicate"),
        F.pad(x, (2, 3), mode="circular"),
        x.roll((1, -2), (1, 2)),
        x.permute(2, 0, 1).contiguous(),
        one.sum(-1, keepdim=True).expand(-1, -1, 5) + two[..., :1],
        x.unfold(2, 4, 3),
        x.tril(1) - x.triu(-1),
        x.repeat(2, 1, 3),
        torch.diagonal(x, 1, 1, 2),
        x.transpose(0, 2).reshape(x.shape[2], -1),
    )


def reduced(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.sum(1),
        x.mean((0, 2)),
        x.amax(1),
        x.prod(1),
        x.argmax(1),
        x.argmin(0),
        x.argmax(),
        torch.logsumexp(x, 1),
        (x > 1).any(1),
        (x < 2).all(2),
        x.var(1),
        x.softmax(1),
        x.norm(dim=(1, 2)),
        (x > 0).sum(1),
        x.min(1).indices,
    )


def scanned(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, places = x.cummax(1)
    top, at = x.topk(3, 2)
    ordered, order = x.sort(dim=2, descending=True, stable=True)
    return (
        x.cumsum(2),
        x.cumprod(1),
        x.flip(1).cumsum(1).flip(1),
        x.logcumsumexp(2),
        values,
        places,
        top,
        at,
        ordered,
        order,
    )


def windows(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    image = x.unsqueeze(1)
    return (
        F.max_pool1d(x, 3, 2, 1),
        F.max_pool2d(image, 3, 2, 1, ceil_mode=True),
        F.max_pool3d(image.unsqueeze(2), (1, 2, 3), (1, 2, 2), dilation=(1, 1, 2)),
        F.avg_pool1d(x, 4, 3, 2),
        F.avg_pool2d(image, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        F.avg_pool2d(image, 2, divisor_override=3),
        F.adaptive_avg_pool1d(x, 5),
        F.adaptive_max_pool2d(image, (2, 3)),
        F.lp_pool1d(x.abs(), 2, 3),
        F.interpolate(image, scale_factor=2, mode="nearest"),
        F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False),
    )


def pointwise(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.ceil() + x.trunc() * x.round(),
        torch.atan2(x, x + 1) + x.sinh(),
        torch.remainder(x, 1.5) - torch.fmod(x, 0.7),
        x.isnan() | x.isinf(),
        torch.div(x, 0.3, rounding_mode="floor"),
        F.mish(x) + F.hardswish(x) + F.softsign(x),
        x.to(torch.int64) % 3,
        x / math.sqrt(x.shape[2]),
    )


@pytest.mark.parametrize("reference", [moved, reduced, scanned, windows, pointwise], ids=lambda r: r.__name__)
def test_what_is_not_a_product_agrees(reference: Reference) -> None:
    count = len(reference(torch.randn(3, 7, 18)))
    task = cube(reference, count, reference.__name__)
    source = make(task, "cpp").propose(Request(Operator.fresh, 1, 0))[0].candidate.source
    for sizes in SIZES:
        assert not errors(task, source, sizes)


def convolved(
    x: torch.Tensor, plain: torch.Tensor, grouped: torch.Tensor, turned: torch.Tensor, deep: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    image = x[:, :4]
    return (
        F.conv1d(x, plain, stride=2, padding=2, dilation=2),
        F.conv1d(image, grouped, groups=2, padding=1),
        F.conv_transpose1d(image, turned, stride=2, padding=1, output_padding=1, groups=2, dilation=2),
        F.conv3d(x[:, None, None], deep, padding=(0, 1, 1)),
        F.conv_transpose2d(x[:, None], deep[:, :, 0], stride=(1, 2)) if deep.shape[0] == 1 else x.sum(),
        torch.einsum("abc,adc->abd", x, image),
        x @ x.transpose(1, 2),
        F.scaled_dot_product_attention(x, x, x, is_causal=True),
    )


def test_convolutions_and_stacks_of_products_agree() -> None:
    more = {
        "plain": tensor("f", "b", 3),
        "grouped": tensor(6, 2, 3),
        "turned": tensor(4, 3, 3),
        "deep": tensor(1, 1, 1, 3, 2),
    }
    inputs = {"x": tensor(*CUBE), **more}
    sizes = SIZES[0] | {"f": 5}
    names = tuple(f"out{n}" for n in range(8))
    task = Task(convolved, inputs, [sizes], RANGES | {"f": (1, 9)}, "convolved", outputs=names)
    source = make(task, "cpp").propose(Request(Operator.fresh, 1, 0))[0].candidate.source
    for one in (sizes, SIZES[1] | {"f": 2}):
        assert not errors(task, source, one)


def looked_up(x: torch.Tensor, index: torch.Tensor, every: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x[:, index],
        x[:, index, index],
        x.index_select(1, index),
        F.embedding(index, x[0]),
        x.gather(2, every),
        torch.zeros_like(x).index_add(1, index, x[:, : index.shape[0]]),
        torch.zeros_like(x).scatter_add(2, every, x),
    )


def test_lookups_agree() -> None:
    more = {
        "index": tensor("b", draw=integers(0, 4), dtype="int64"),
        "every": tensor(*CUBE, draw=integers(0, 8), dtype="int64"),
    }
    task = cube(looked_up, 7, "looked_up", **more)
    source = make(task, "cpp").propose(Request(Operator.fresh, 1, 0))[0].candidate.source
    for sizes in SIZES:
        assert not errors(task, source, sizes)


def test_special_values_are_those_of_torch() -> None:
    """NaN wins in maxima and pooling, infinities and -0.0 come through."""

    def reference(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.amax(1), x.argmax(1), x.amin(1), F.max_pool1d(x, 3, 1, 1), x.flip(1).relu(), x.cummax(1).values,
            x.flip(2).maximum(x), x.flip(2).clamp(-1, 1), x.sort(dim=2, stable=True).values, x.isinf(),
        )  # fmt: skip

    task = cube(reference, 10, "special")
    source = make(task, "cpp").propose(Request(Operator.fresh, 1, 0))[0].candidate.source
    x = aligned(torch.randn(2, 5, 12))
    x[0, 1, 3], x[0, 2, 4], x[1, 0, 0], x[1, 3, 5], x[1, 4] = math.nan, math.inf, -math.inf, -0.0, -math.inf
    form = signature(task, Workload((("a", 2), ("b", 5), ("c", 12))))
    expected = reference(x)
    made = {f"out{n}": aligned(torch.empty_like(value)) for n, value in enumerate(expected)}
    call(compiled(source, form), form, {"x": x, **made})
    for value, got in zip(expected, made.values(), strict=True):
        assert torch.equal(value.isnan(), got.isnan())
        assert torch.equal(value[~value.isnan()], got[~got.isnan()])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_dtypes_are_stored_as_they_are(dtype: str) -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        return F.silu(x.float() if x.dtype.itemsize == 2 else x).to(x.dtype) * x.softmax(-1)

    task = Task(reference, {"x": tensor(*CUBE)}, [dict(SIZES[0])], RANGES, "gate", dtypes=(dtype,))
    source = make(task, "cpp").propose(Request(Operator.fresh, 1, 0))[0].candidate.source
    workload = Workload(tuple(SIZES[0].items()), dtype)
    form = signature(task, workload)
    x = aligned(torch.randn(3, 7, 18).to(getattr(torch, dtype)))
    out = aligned(torch.zeros_like(x))
    call(compiled(source, form), form, {"x": x, "out": out})
    exact = F.silu(x.double()) * x.double().softmax(-1)
    unit = torch.finfo(x.dtype).eps
    assert bool(((out.double() - exact).abs() <= 8 * unit * exact.abs() + 1e-6 * (unit > 1e-9)).all())


def test_a_refusal_names_the_operation() -> None:
    from kernelwright.proposers.templates.graph import CannotExpressError

    task = cube(lambda x: torch.linalg.svdvals(x), 1, "svd")
    with pytest.raises(CannotExpressError, match=r"svd.*--proposer"):
        make(task, "cpp")


def test_results_that_round_differently_have_sizes_of_their_own() -> None:
    def reference(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.max_pool1d(x, 3, 2, 1), F.max_pool1d(x, 3, 2, 1, ceil_mode=True)

    graph = read_graph(cube(reference, 2, "rounded"))
    down, up = (tensor.shape[-1] for tensor in graph.tensors if tensor.role == "output")
    assert down != up
