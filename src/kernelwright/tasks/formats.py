"""Tensors of formats in which torch stores values but hardly computes: widened to float32, and rounded back.

e4m3fn has no infinities: what is too large becomes its largest number, as torch rounds and as CUDA's conversion does.
"""

from __future__ import annotations

import torch

from kernelwright.tasks.dtypes import NARROW, STORED_ONLY

_STORED_ONLY = frozenset(getattr(torch, name) for name in STORED_ONLY)
NARROW_FORMATS = frozenset(getattr(torch, name) for name in NARROW)


def arithmetic(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in a format that torch computes in."""
    return tensor.float() if tensor.dtype in _STORED_ONLY else tensor


def arithmetic_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in _STORED_ONLY else dtype


def rounded(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The nearest values of a format, in one that torch computes in."""
    return arithmetic(tensor.to(dtype))


def is_narrow(dtype: torch.dtype) -> bool:
    return dtype in NARROW_FORMATS


def wider(one: torch.dtype, other: torch.dtype) -> torch.dtype:
    """As `torch.promote_types`, which refuses formats of 8 bits: any other float holds their values."""
    if one in _STORED_ONLY and other.is_floating_point and one != other:
        return torch.float32 if other in _STORED_ONLY else other
    if other in _STORED_ONLY and one.is_floating_point:
        return one
    return torch.promote_types(one, other)
