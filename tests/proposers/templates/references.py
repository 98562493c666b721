"""References that no built-in task has: near misses, and shapes of computation that users write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, custom, normal, tensor
from kernelwright.tasks.backward import derive_backward


def pointwise(function: Callable[..., Any], name: str = "pointwise") -> Task:
    sizes = [{"n": 1000}, {"n": 1003}]
    return Task(reference=function, inputs={"x": tensor("n")}, public=sizes, hidden={"n": (1, 5000)}, name=name)


def matrix(function: Callable[..., Any], name: str = "matrix") -> Task:
    sizes = [{"rows": 100, "cols": 90}, {"rows": 33, "cols": 70}]
    ranges = {"rows": (1, 500), "cols": (1, 500)}
    return Task(reference=function, inputs={"x": tensor("rows", "cols")}, public=sizes, hidden=ranges, name=name)


def swiglu() -> Task:
    def reference(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T

    weight = normal(0.0, 0.05)
    inputs = {
        "x": tensor("batch", "seq", "dim"),
        "gate": tensor("up", "dim", draw=weight),
        "up": tensor("up", "dim", draw=weight),
        "down": tensor("dim", "up", draw=weight),
    }
    sizes = [{"batch": 2, "seq": 16, "dim": 64, "up": 128}]
    ranges = {"batch": (1, 8), "seq": (1, 64), "dim": (1, 256), "up": (1, 600)}
    return Task(reference=reference, inputs=inputs, public=sizes, hidden=ranges, name="swiglu")


def convolution(stride: int = 1, padding: int = 0, *, pooled: bool = True) -> Task:
    def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        made = F.relu(F.conv2d(x, weight, bias, stride=stride, padding=padding))
        return F.max_pool2d(made, 2) if pooled else made

    inputs = {
        "x": tensor("batch", "channels", "height", "width"),
        "weight": tensor("filters", "channels", 3, 3, draw=normal(0.0, 0.2)),
        "bias": tensor("filters"),
    }
    names = ("batch", "channels", "height", "width", "filters")
    sizes = [dict(zip(names, (4, 1, 28, 28, 32), strict=True))]
    ranges = dict(zip(names, ((1, 64), (1, 9), (8, 60), (8, 60), (1, 40)), strict=True))
    return Task(reference=reference, inputs=inputs, public=sizes, hidden=ranges, name="convolution")


def linear_gelu() -> Task:
    def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.linear(x, weight, bias))

    inputs = {
        "x": tensor("batch", "seq", "dim"),
        "weight": tensor("units", "dim", draw=normal(0.0, 0.1)),
        "bias": tensor("units"),
    }
    sizes = [{"batch": 2, "seq": 16, "dim": 64, "units": 128}]
    ranges = {"batch": (1, 8), "seq": (1, 64), "dim": (1, 256), "units": (1, 600)}
    return Task(reference=reference, inputs=inputs, public=sizes, hidden=ranges, name="linear_gelu")


def wide_layernorm() -> Task:
    """Affine over the last three dimensions: one very long row."""

    def reference(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, eps: float) -> torch.Tensor:
        return F.layer_norm(x, x.shape[1:], scale, shift, eps)

    form = ("c", "h", "w")
    inputs = {"x": tensor("n", *form), "scale": tensor(*form), "shift": tensor(*form), "eps": 1e-5}
    sizes = [{"n": 1, "c": 16, "h": 64, "w": 64}]
    ranges = {"n": (1, 8), "c": (2, 64), "h": (2, 99), "w": (2, 99)}
    return Task(reference=reference, inputs=inputs, public=sizes, hidden=ranges, name="wide_layernorm")


def _distinct(
    generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, sizes: dict[str, int]
) -> torch.Tensor:
    """No two places of a row are equal, or their order would decide."""
    ranks = torch.rand(*shape[:-1], sizes["many"] * 2, generator=generator).argsort(-1)
    return ranks[..., : shape[-1]].to(dtype).contiguous()


def scatter() -> Task:
    def reference(index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(x.shape[0], 2 * x.shape[1]).scatter(1, index, x * 2)

    inputs = {"index": tensor("rows", "many", draw=custom(_distinct), dtype="int64"), "x": tensor("rows", "many")}
    sizes = [{"rows": 30, "many": 40}, {"rows": 11, "many": 70}]
    ranges = {"rows": (1, 500), "many": (1, 500)}
    return Task(reference=reference, inputs=inputs, public=sizes, hidden=ranges, name="scatter")


def backward(task: Task) -> Task:
    return derive_backward(task)
