"""The memory that one call of a reference has at a time, found without computing anything."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.drawing import on_any_arguments
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import Argument, call_reference, prepared
from kernelwright.tasks.without_values import declared_bytes

UNKNOWN = 4  # times the declared tensors: the memory of a reference that cannot be followed without values


@dataclass(frozen=True)
class CallMemory:
    """Bytes of one call of a reference: its arguments, its results, and the most that it makes at a time, results and
    copies of what it changes included."""

    arguments: int
    results: int
    peak: int


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the storages that a call makes, from when they are made until they are dropped."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sizes: dict[int, int] = {}
        self._now = self.peak = 0

    def ignore(self, arguments: Mapping[str, Argument]) -> int:
        """Those that were there before are not counted. Says how many bytes they have."""
        tensors = [value for value in arguments.values() if isinstance(value, torch.Tensor)]
        self._sizes |= {tensor.untyped_storage()._cdata: 0 for tensor in tensors}
        return sum(tensor.nbytes for tensor in tensors)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._saw(leaf)
        return result

    def _saw(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        name = storage._cdata
        if name in self._sizes:
            return
        self._sizes[name] = storage.nbytes()
        self._now += self._sizes[name]
        self.peak = max(self.peak, self._now)
        weakref.finalize(storage, self._dropped, name)

    def _dropped(self, name: int) -> None:
        self._now -= self._sizes.pop(name, 0)


def call_memory(task: Task, workload: Workload, dtype: torch.dtype | None = None) -> CallMemory:
    """Of a call in the task's dtype, or with all floating-point tensors in another."""

    def look(arguments: dict[str, Argument]) -> CallMemory:
        given = {
            name: torch.empty_like(value, dtype=dtype)
            if dtype is not None and isinstance(value, torch.Tensor) and value.is_floating_point()
            else value
            for name, value in arguments.items()
        }
        live = LiveBytes()
        there = live.ignore(given)
        with live:
            results = call_reference(task, prepared(task, given))
        return CallMemory(there, sum(result.nbytes for result in results.values()), live.peak)

    try:
        return on_any_arguments(task, workload, look)
    except TaskError:
        wider = 1 if dtype is None else 2
        there = wider * declared_bytes(task, workload)
        return CallMemory(there, there, UNKNOWN * there)
