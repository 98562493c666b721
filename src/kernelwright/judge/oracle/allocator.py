"""Keeps freed memory in the process, so that the next tensor of the same size does not fault in every page anew.

A study allocates and frees dozens of tensors of many megabytes, each of which the C library would give back to the
system at once. Keeping them halves the time of a study.
"""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_ON_HEAP = 32 << 20
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """To be called once, before the first large tensor. False where the C library has no such setting."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_ON_HEAP)) and bool(mallopt(M_TRIM_THRESHOLD, NEVER))
