"""Tensors of formats in which torch stores values but hardly computes: widened to float32, and rounded back.

e4m3fn has no infinities: what is too large becomes its largest number.
"""

from __future__ import annotations

from functools import cache

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


@cache
def saturates() -> bool:
    """Whether torch rounds what float8_e4m3fn cannot hold to its largest number, as kernels do; it once made it NaN."""
    return bool(arithmetic(torch.tensor(1e6).to(torch.float8_e4m3fn)).isfinite())
