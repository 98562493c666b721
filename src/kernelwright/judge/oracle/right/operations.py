"""What single operations do to rounding: which are exact, which keep every element to itself, and what a sum loses."""

from __future__ import annotations

from typing import Any

import torch

from kernelwright.judge.oracle.right.sums import lost_in_running_sums, lost_in_sum

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
EXACT = frozenset((_MOVES + " relu relu_ threshold threshold_ threshold_backward").split())
"""Operations that move, select or compare, and round nothing."""

_SELECTS = """
    abs adaptive_max_pool2d amax amin ceil clamp clamp_max clamp_min cummax cummin floor hardtanh heaviside masked_fill
    masked_fill_ max max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices maximum min
    minimum neg neg_ relu relu_ round sort threshold threshold_ threshold_backward topk tril triu trunc where
"""
SELECTS = frozenset(_SELECTS.split())
"""Those that choose among values or signs: -0 and +0, and NaNs of any kind, are as good as each other."""

_SEPARATE = """
    add addcdiv addcmul div exp exp2 lerp log log2 mul pow reciprocal rsqrt rsub sigmoid silu sqrt square sub
"""
SEPARATE = frozenset(_SEPARATE.split())
"""Operations on each element by itself, whose usual implementations round relative to their arguments and results.

Not here: functions that are often computed from others which cancel (tanh from exponentials, gelu from 1 + erf). Their
errors are of the size of the row.
"""

WEIGHT_OF_CONVOLUTION = {"convolution": 1, "convolution_backward": 2}


def lost(name: str, args: tuple[Any, ...], result: torch.Tensor, unit: float) -> torch.Tensor | None:
    """How much of a sum an honest kernel may lose (see `sums`); None for other operations."""
    if name == "convolution_backward" and result.dim() == 1:  # of the bias: the upstream gradient, added up
        return lost("sum", (args[0], (0, *range(2, args[0].dim()))), result, unit)
    if name == "cumsum" and result.dim() and args[0].is_floating_point():
        return lost_in_running_sums(args[0].movedim(args[1], -1), unit).movedim(-1, args[1])
    if name not in ("sum", "mean") or args[0].numel() == result.numel() or not args[0].is_floating_point():
        return None
    axes = tuple(args[1]) if len(args) > 1 and args[1] else tuple(range(args[0].dim()))
    terms = _axes_last(args[0], axes)
    loss = lost_in_sum(terms, unit).view(result.shape)
    return loss if name == "sum" else loss.div_(terms.shape[-1])


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
