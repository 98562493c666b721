"""Runs steps of a stranger's graph within a bound on memory and time.

What an operator will make is asked of it first, without data, so that a tensor which is too large is never made.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from kernelwright.tasks.dims import TaskError

META = torch.device("meta")


class TooCostly(TaskError):  # noqa: N818 - it says what the steps are
    """Steps of a graph that would take more memory or time than they are given."""


class Bounded(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """`most` bytes for all tensors that are made, and `seconds` until the last operator begins."""

    def __init__(self, most: int, seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left, self._most = most, most
        self._end = time.monotonic() + seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if time.monotonic() > self._end:
            raise TooCostly("its steps take too long")
        needed = _needed(func, args, options)
        if needed is not None:
            self.spend(needed)
        found = func(*args, **options)
        if needed is None:  # its size depends on values
            self.spend(_new_bytes(found, (args, options)))
        return found

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooCostly(f"its steps make tensors of more than {self._most >> 20:,} MiB")


def _needed(func: Any, args: Any, options: Any) -> int | None:
    """Bytes, by a run without data; None where it cannot be told before."""
    given = tree_map(_without_data, (args, options))
    if any(one.name == "device" and one.kwarg_only for one in func._schema.arguments):
        given[1]["device"] = META  # also where none is named, as for a tensor that is made of nothing
    try:
        return _new_bytes(func(*given[0], **given[1]), given)
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        return None


def _without_data(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=META)
    return META if isinstance(value, torch.device) else value


def _new_bytes(found: Any, given: Any) -> int:
    """Of storages that the arguments do not have."""
    known = {one.untyped_storage()._cdata for one in tree_flatten(given)[0] if isinstance(one, torch.Tensor)}
    made = [one.untyped_storage() for one in tree_flatten(found)[0] if isinstance(one, torch.Tensor)]
    return sum(one.nbytes() for one in {one._cdata: one for one in made}.values() if one._cdata not in known)
