"""Types and devices inside a reference that names them, as in `x.float()`: `cast` is for task files, the others are
what captured functions become.

The judge also evaluates a reference in a wider type than the task's, float64 for the answer, and a type that is written
down would narrow that again. There it widens along; in the task's own type it is what was written. Every function here
stands by itself: an exported kernel takes it along with its reference.
"""

from __future__ import annotations

import torch


def cast(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`value.to(dtype)`; but what the judge evaluates in float64 stays in it."""
    return value if value.dtype == torch.float64 and dtype.is_floating_point else value.to(dtype)


def working_dtype(written: torch.dtype, given: torch.Tensor, declared: torch.dtype) -> torch.dtype:
    """The type to use for one that a reference wrote down, by an input that the task declares as `declared`."""
    return written if given.dtype == declared or written.itemsize > given.dtype.itemsize else given.dtype


def working_device(given: torch.Tensor) -> torch.device:
    """Where a reference makes a tensor for which its code named a device."""
    return given.device


def literals(values: list[float], shape: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor whose values the code writes out."""
    return torch.tensor(values, dtype=dtype, device=device).reshape(shape)
