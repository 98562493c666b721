"""What single operations do to rounding: which are exact, which hide several steps, and what a long sum
loses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
SMALL = 4.0  # units of the running sum
ALIKE = 2.0  # units of the running sum: terms that differ by more are rounded in different directions
MANY = 0.25  # of all terms; fewer that happen to be alike are spread over a unit, and their rounding averages out
SAMPLE = 64

_MOVES = """
    _local_scalar_dense _to_copy _unsafe_view abs adaptive_max_pool2d amax amin arange argmax argmin
    bucketize cat ceil clamp clamp_max clamp_min clone constant_pad_nd copy copy_ cummax cummin embedding
    empty empty_like empty_strided fill fill_ flip floor full full_like gather hardtanh heaviside im2col
    index index_copy index_put index_put_ index_select masked_fill masked_fill_ masked_scatter max
    max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices maximum min minimum neg
    neg_ new_empty new_full new_ones new_zeros nonzero ones ones_like reflection_pad2d repeat
    repeat_interleave replication_pad2d resize_ roll round scalar_tensor scatter select_scatter
    slice_backward slice_scatter sort squeeze_ stack take topk tril triu trunc unsqueeze_ upsample_nearest2d
    where zero_ zeros zeros_like
"""
EXACT = frozenset(_MOVES.split())
"""Operations that move, select or compare, and round nothing."""

WEIGHT_OF_CONVOLUTION = {"convolution": 1, "convolution_backward": 2}


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


PARTS: dict[Any, Callable[..., Any]] = {
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
    aten._softmax_backward_data.default: _softmax_backward,
    aten._log_softmax_backward_data.default: _log_softmax_backward,
    aten.logsumexp.default: _logsumexp,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
}
"""Fused operations as the steps that a kernel takes for them, where a step may cancel or lose what the whole hides."""


def lost(name: str, args: tuple[Any, ...], result: torch.Tensor, unit: float) -> torch.Tensor | None:
    """How much of a sum one accumulator may lose; None for other operations.

    Every addition rounds by up to a unit of the running sum. As a rule that averages out, and grows with the root
    of the number of terms. It does not where terms are too small to change the sum, or so alike that all are rounded
    in the same direction: then it grows with their number.
    """
    if name == "convolution_backward" and result.dim() == 1:  # of the bias: the upstream gradient, added up
        return lost("sum", (args[0], (0, *range(2, args[0].dim()))), result, unit)
    if name not in ("sum", "mean") or args[0].numel() == result.numel():
        return None
    axes = tuple(args[1]) if len(args) > 1 and args[1] else tuple(range(args[0].dim()))
    terms = _axes_last(args[0], axes)
    count = terms.shape[-1]
    rounding = terms.cumsum(-1).abs_().amax(-1, keepdim=True).mul_(unit)
    usual = terms[..., :: max(1, count // SAMPLE)].median(-1, keepdim=True).values
    alike = (terms - usual).abs_() <= ALIKE * rounding
    alike &= alike.sum(-1, keepdim=True) >= MANY * count
    terms = terms.abs()
    biased = torch.minimum(terms, rounding).masked_fill_(~(alike | (terms <= SMALL * rounding)), 0.0)
    loss = biased.sum(-1).add_(rounding.squeeze(-1), alpha=2 * math.sqrt(count)).view(result.shape)
    return loss if name == "sum" else loss.div_(count)


def _axes_last(terms: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """The summed axes as one, behind the others."""
    summed = sorted(axis % terms.dim() for axis in axes)
    kept = [axis for axis in range(terms.dim()) if axis not in summed]
    return terms.permute(*kept, *summed).reshape(*(terms.shape[axis] for axis in kept), -1)


def largest_products(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor | None:
    """For every plane that a convolution gives: its channels' largest values times largest weights, added as errors
    are, by their squares. None for grouped ones."""
    if x.shape[1] != weight.shape[1] or x.dim() != weight.dim():
        return None
    # In float64, because squares of large values overflow.
    values, weights = (part.abs().flatten(2).amax(2).double().square_() for part in (x, weight))
    return (values @ weights.t()).sqrt_().to(x.dtype)
