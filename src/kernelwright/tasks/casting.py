"""Types and devices inside a captured reference that names them, as in `x.float()`.

The judge also evaluates a reference in a wider type than the task's, float64 for the answer, and a type that is written
down would narrow that again. There it widens along; in the task's own type it is what was written.
"""

from __future__ import annotations

import torch

from kernelwright.tasks.formats import wider


def working_dtype(written: torch.dtype, given: torch.Tensor, declared: torch.dtype) -> torch.dtype:
    """The type to use for one that a reference wrote down, by an input that the task declares as `declared`."""
    return written if given.dtype == declared else wider(written, given.dtype)


def working_device(given: torch.Tensor) -> torch.device:
    """Where a reference makes a tensor for which its code named a device."""
    return given.device


def literals(values: list[float], shape: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor whose values the code writes out."""
    return torch.tensor(values, dtype=dtype, device=device).reshape(shape)
