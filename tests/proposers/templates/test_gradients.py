"""Gradients of pooling, lookups and scatters, and the scatters themselves, agree with the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import make
from kernelwright.tasks import Task, integers, tensor
from kernelwright.tasks.backward import derive_backward
from tests.proposers.templates.checking import errors

SIZES = {"a": 3, "b": 9, "c": 10}
RANGES = {"a": (1, 9), "b": (6, 60), "c": (6, 60)}
CUBE = {"x": tensor("a", "b", "c")}


def places(*dims: str) -> Any:
    return tensor(*dims, draw=integers(0, 6), dtype="int64")


def task(reference: Callable[..., Any], inputs: dict[str, Any], outputs: int = 1) -> Task:
    names = ("out",) if outputs == 1 else tuple(f"out{n}" for n in range(outputs))
    return Task(reference, inputs, [dict(SIZES)], RANGES, "gradient", outputs=names)


def agree(one: Task) -> None:
    source = make(one, "cpp").propose(Request(Operator.fresh, 1, 0))[0].candidate.source
    for sizes in (SIZES, {"a": 2, "b": 12, "c": 7}):
        assert not errors(one, source, sizes)


def several_pools(x: torch.Tensor) -> torch.Tensor:
    image = x.unsqueeze(0)
    averaged = F.avg_pool2d(image, 3, 2, 1, count_include_pad=False).sum() * 2
    ceiled = F.avg_pool2d(image, 3, 2, 1, ceil_mode=True).square().sum()
    largest = F.max_pool2d(image, 3, 2, 1, ceil_mode=True).square().sum()
    deep = F.max_pool3d(image.unsqueeze(0), (1, 2, 3), (1, 2, 1)).square().sum()
    return averaged + ceiled + largest + deep + F.adaptive_avg_pool2d(image, (2, 3)).square().sum()


def test_gradients_of_pooling() -> None:
    agree(derive_backward(task(several_pools, CUBE)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "inputs"),
    [
        (lambda x, i: x[i], {"x": tensor("b", "c"), "i": places("a")}),
        (lambda i, w: F.embedding(i, w), {"i": places("a", "c"), "w": tensor("b", "c")}),
        (lambda x, i: x.gather(0, i), {"x": tensor("b", "c"), "i": places("a", "c")}),
    ],
    ids=["index", "embedding", "gather"],
)
def test_gradients_of_lookups(reference: Callable[..., Any], inputs: dict[str, Any]) -> None:
    agree(derive_backward(task(reference, inputs)))


def put(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[Any, ...]:
    rows = v.sum(1)
    return (
        x.index_put((i,), v, accumulate=True),
        x.index_put((i, j), rows, accumulate=True),
        x.index_put((i,), v),
        x.index_put((x > 0.5,), rows[:1].mean()),
        x.scatter(0, k, v),
        x.scatter(0, k, 1.5),
        x.scatter_reduce(0, k, v, "mean"),
        x.scatter_reduce(0, k, v, "amax", include_self=False),
        x.scatter_reduce(0, k, v, "prod"),
    )


def test_what_is_put_at_places() -> None:
    given = {"x": tensor("b", "c"), "i": places("a"), "j": places("a"), "k": places("a", "c"), "v": tensor("a", "c")}
    agree(task(put, given, 9))
