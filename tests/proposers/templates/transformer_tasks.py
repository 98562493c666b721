"""The commonest steps between the products of a transformer, in the forms in which people write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, integers, tensor
from kernelwright.tasks.declarations import TensorInput


def geglu(x: torch.Tensor) -> torch.Tensor:
    value, gate = x.chunk(2, -1)
    return value * F.gelu(gate)


def swiglu(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return F.silu(x[..., :half]) * x[..., half:]


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat((-two, one), -1) * sin


def masked_softmax(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(mask, float("-inf")).softmax(-1)


def chosen_softmax(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, x, torch.full_like(x, -1e9)).softmax(-1)


def biased_softmax(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (x * 0.125 + mask).softmax(-1)


def causal_softmax(x: torch.Tensor) -> torch.Tensor:
    queries, keys = x.shape[-2:]
    hidden = torch.ones(queries, keys, dtype=torch.bool, device=x.device).triu(1)
    return x.masked_fill(hidden, float("-inf")).softmax(-1)


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def normed_half(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    one, two = x.split(x.shape[-1] // 2, -1)
    return F.layer_norm(one, one.shape[-1:], weight) * torch.sigmoid(two)


def _mask(*dims: Any) -> TensorInput:
    return tensor(*dims, draw=integers(0, 2), dtype="bool")


SCORES = ("batch", "heads", "queries", "keys")
RANGES = {"batch": (1, 5), "heads": (1, 5), "queries": (1, 40), "keys": (1, 70), "tokens": (1, 60), "half": (1, 70)}
RANGES |= {"dim": (2, 33)}


def transformer_task(function: Callable[..., Any], dtypes: tuple[str, ...] = ("float32",), **inputs: Any) -> Task:
    names = {dim.removeprefix("2 * ") for given in inputs.values() for dim in given.dims if isinstance(dim, str)}
    hidden = {name: RANGES[name] for name in RANGES if name in names}
    public = [{name: max(1, high // 3) for name, (_, high) in hidden.items()}]
    return Task(function, inputs, public, hidden, function.__name__, dtypes=dtypes)


def tasks(*dtypes: str) -> dict[str, Task]:
    """By name; `dtypes` are those of the storage."""
    kinds = dtypes or ("float32",)
    gated = {"x": tensor("batch", "tokens", "2 * half")}
    scores = {"x": tensor(*SCORES)}
    heads = ("batch", "heads")
    table = {name: tensor("tokens", "2 * half", gradient=False) for name in ("cos", "sin")}
    turned = {"x": tensor(*heads, "tokens", "2 * half"), **table}
    qkv = {name: tensor(*heads, "queries", "dim") for name in "qkv"}
    declared: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (geglu, gated),
        (swiglu, gated),
        (rotary, turned),
        (masked_softmax, scores | {"mask": _mask("batch", 1, 1, "keys")}),
        (chosen_softmax, scores | {"mask": _mask("batch", 1, "queries", "keys")}),
        (biased_softmax, scores | {"mask": tensor("batch", 1, "queries", "keys")}),
        (causal_softmax, scores),
        (causal_attention, qkv),
        (normed_half, gated | {"weight": tensor("half")}),
    ]
    return {function.__name__: transformer_task(function, kinds, **inputs) for function, inputs in declared}


TASKS = tasks()
