"""Fused operations as the steps that a kernel takes for them, where a step may cancel or lose what the whole hides.

A part that does not cover the arguments at hand answers NotImplemented, and the operation stays whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
MEAN, SUM = 1, 2  # reductions of a loss, as ATen numbers them


def _softmax(x: torch.Tensor, dim: int, _: bool) -> torch.Tensor:
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.sum(dim, keepdim=True)


def _log_softmax(x: torch.Tensor, dim: int, _: bool) -> torch.Tensor:
    below = x - x.amax(dim, keepdim=True)
    return below - torch.exp(below).sum(dim, keepdim=True).log()


def _softmax_backward(grad: torch.Tensor, result: torch.Tensor, dim: int, _: torch.dtype) -> torch.Tensor:
    weighted = grad * result
    return weighted - result * weighted.sum(dim, keepdim=True)


def _log_softmax_backward(grad: torch.Tensor, result: torch.Tensor, dim: int, _: torch.dtype) -> torch.Tensor:
    return grad - torch.exp(result) * grad.sum(dim, keepdim=True)


def _logsumexp(x: torch.Tensor, dim: list[int], keepdim: bool = False) -> torch.Tensor:
    top = x.amax(dim, keepdim=True)
    total = torch.exp(x - top).sum(dim, keepdim=True).log() + top
    return total if keepdim else total.squeeze(dim)


def _layer_norm(
    x: torch.Tensor, shape: list[int], weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    axes = tuple(range(-len(shape), 0))
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    scale = (centred.square().mean(axes, keepdim=True) + eps).rsqrt()
    result = centred * scale
    result = result if weight is None else result * weight
    return (result if bias is None else result + bias), mean, scale


def _batch_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    mean: torch.Tensor | None,
    scale: torch.Tensor | None,
    train: bool,
    eps: float,
    _: list[bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    def along(values: torch.Tensor) -> torch.Tensor:
        return values.view(-1, *(1 for _ in x.shape[2:]))

    axes = (0, *range(2, x.dim()))
    if not train:
        assert running_mean is not None and running_var is not None
        mean, scale = running_mean, (running_var + eps).rsqrt()
    assert mean is not None and scale is not None
    normal = (x - along(mean)) * along(scale)
    grad_weight, grad_bias = (grad * normal).sum(axes), grad.sum(axes)
    factor = scale if weight is None else scale * weight
    if train:
        count = x.numel() // x.shape[1]
        grad = grad - along(grad_bias / count) - normal * along(grad_weight / count)
    return grad * along(factor), grad_weight, grad_bias


def _layer_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    shape: list[int],
    mean: torch.Tensor,
    scale: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    wanted: list[bool],
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    inner, outer = tuple(range(-len(shape), 0)), tuple(range(x.dim() - len(shape)))
    normal = (x - mean) * scale
    weighted = grad if weight is None else grad * weight
    along = weighted.mean(inner, keepdim=True) + normal * (weighted * normal).mean(inner, keepdim=True)
    grad_weight = (grad * normal).sum(outer).view(shape) if wanted[1] and weight is not None else None
    grad_bias = grad.sum(outer).view(shape) if wanted[2] and bias is not None else None
    return (weighted - along) * scale, grad_weight, grad_bias


def _group_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    batch: int,
    channels: int,
    _: int,
    groups: int,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = x.reshape(batch, groups, -1)
    mean = rows.mean(-1, keepdim=True)
    centred = rows - mean
    scale = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    result = (centred * scale).view(batch, channels, -1)
    result = result if weight is None else result * weight.view(-1, 1)
    result = result if bias is None else result + bias.view(-1, 1)
    return result.view(x.shape), mean.squeeze(-1), scale.squeeze(-1)


def _group_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    scale: torch.Tensor,
    weight: torch.Tensor | None,
    batch: int,
    channels: int,
    _: int,
    groups: int,
    wanted: list[bool],
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    def by_channel(values: torch.Tensor) -> torch.Tensor:
        return values.reshape(batch, channels, -1)

    scale = scale.view(batch, groups, 1)
    normal = (x.reshape(batch, groups, -1) - mean.view(batch, groups, 1)) * scale
    weighted = by_channel(grad) if weight is None else by_channel(grad) * weight.view(-1, 1)
    rows = weighted.reshape(batch, groups, -1)
    along = rows.mean(-1, keepdim=True) + normal * (rows * normal).mean(-1, keepdim=True)
    grad_weight = (by_channel(grad) * by_channel(normal)).sum((0, 2)) if wanted[1] else None
    grad_bias = by_channel(grad).sum((0, 2)) if wanted[2] else None
    return ((rows - along) * scale).view(x.shape), grad_weight, grad_bias


def _variance(
    x: torch.Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> torch.Tensor:
    return _variance_and_mean(x, dim, correction=correction, keepdim=keepdim)[0]


def _variance_and_mean(
    x: torch.Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    axes = [axis % x.dim() for axis in dim] if dim else list(range(x.dim()))
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    mean = x.mean(axes, keepdim=True)
    squares = (x - mean).square().sum(axes, keepdim=keepdim)
    result = squares / max(count - (1.0 if correction is None else correction), 0.0) if count else squares / 0.0
    return result, (mean if keepdim else mean.squeeze(tuple(axes)))


def _deviation(
    x: torch.Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> torch.Tensor:
    return _variance(x, dim, correction=correction, keepdim=keepdim).sqrt()


def _vector_norm(
    x: torch.Tensor,
    order: float = 2,
    dim: list[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    if order not in (1, 2) or dtype is not None:
        return NotImplemented  # type: ignore[no-any-return]
    axes = list(dim) if dim else list(range(x.dim()))
    return x.abs().sum(axes, keepdim=keepdim) if order == 1 else x.square().sum(axes, keepdim=keepdim).sqrt()


def _reduced(losses: torch.Tensor, reduction: int) -> torch.Tensor:
    return losses.mean() if reduction == MEAN else losses.sum() if reduction == SUM else losses


def _mse_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = MEAN) -> torch.Tensor:
    return _reduced((x - target).square(), reduction)


def _nll_loss(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, reduction: int, ignored: int
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() != 2 or reduction not in (MEAN, SUM):
        return NotImplemented  # type: ignore[no-any-return]
    kept = target != ignored
    classes = torch.where(kept, target, 0)
    weights = (torch.ones_like(x[:, 0]) if weight is None else weight[classes]).masked_fill(~kept, 0.0)
    losses = (x.gather(1, classes.unsqueeze(1)).squeeze(1).neg() * weights).masked_fill(~kept, 0.0)
    total = kept.sum().to(x.dtype) if weight is None else weights.sum()
    return (losses.sum() / total if reduction == MEAN else losses.sum()), total


def _gelu(x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    """1 + erf cancels in the tail, in the reference too: a kernel that uses erfc is more exact there."""
    if approximate == "tanh":
        return x * 0.5 * (torch.tanh(_inner_gelu(x)) + 1.0)
    return x * 0.5 * (torch.erf(x * math.sqrt(0.5)) + 1.0)


def _gelu_backward(grad: torch.Tensor, x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    if approximate == "tanh":
        bent = torch.tanh(_inner_gelu(x))
        slope = (1.0 - bent.square()) * (math.sqrt(2 / math.pi) * (1.0 + 3 * 0.044715 * x.square()))
        return grad * ((bent + 1.0) * 0.5 + x * 0.5 * slope)
    density = torch.exp(x.square() * -0.5) * (1 / math.sqrt(2 * math.pi))
    return grad * ((torch.erf(x * math.sqrt(0.5)) + 1.0) * 0.5 + x * density)


def _inner_gelu(x: torch.Tensor) -> torch.Tensor:
    return (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)


PARTS: dict[Any, Callable[..., Any]] = {
    aten.gelu.default: _gelu,
    aten.gelu_backward.default: _gelu_backward,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
    aten._softmax_backward_data.default: _softmax_backward,
    aten._log_softmax_backward_data.default: _log_softmax_backward,
    aten.logsumexp.default: _logsumexp,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten.native_group_norm.default: _group_norm,
    aten.native_group_norm_backward.default: _group_norm_backward,
    aten.var.correction: _variance,
    aten.var_mean.correction: _variance_and_mean,
    aten.std.correction: _deviation,
    aten.linalg_vector_norm.default: _vector_norm,
    aten.mse_loss.default: _mse_loss,
    aten.nll_loss_forward.default: _nll_loss,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
}


class TakenApart(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Evaluates a reference in the steps of its fused operations, which are often more accurate inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in PARTS:
            with self:
                whole = PARTS[func](*args, **(kwargs or {}))
            if whole is not NotImplemented:
                return whole
        return func(*args, **(kwargs or {}))
