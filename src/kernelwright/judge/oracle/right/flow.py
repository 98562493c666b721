"""How each result comes from the inputs: moved, selected, or computed; and whether its elements stay by themselves.

What only moves data has one right answer, bit for bit, and what also selects (a maximum, a ReLU, a mask) has one right
value. Where something is computed, but every element from the same places of the inputs alone, an element has no
neighbours whose rounding it could share.

Every tensor that an operation makes is known by its storage: a view shares it, and memory that is used again is
overwritten in the table by the operation that uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelwright.judge.oracle.right.fused import PARTS
from kernelwright.judge.oracle.right.operations import EXACT, SELECTS, SEPARATE
from kernelwright.tasks.reference import storage_of


class Step(IntEnum):
    """What was done to the inputs at most."""

    MOVED = 0
    SELECTED = 1
    COMPUTED = 2


@dataclass(frozen=True)
class Flow:
    """`separate`: no operation mixed elements, or was one whose implementations differ by more than rounding.
    `sums`: something was added up outside of a product."""

    step: Step = Step.MOVED
    separate: bool = True
    sums: bool = False

    def after(self, other: Flow) -> Flow:
        return Flow(max(self.step, other.step), self.separate and other.separate, self.sums or other.sums)


class Flows:
    """Told every operation of one evaluation, in order."""

    def __init__(self) -> None:
        self._of: dict[int, Flow] = {}
        self._all = Flow()

    def saw(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        flow = _operation(func, args, result)
        for tensor in _tensors((args, kwargs)):
            flow = flow.after(self._of.get(storage_of(tensor), Flow()))
        self._all = self._all.after(flow)
        made = {storage_of(tensor) for tensor in _tensors(result)}
        for storage in made:
            self._of[storage] = flow

    def results(self, results: Mapping[str, torch.Tensor]) -> dict[str, Flow]:
        """A result that no operation was seen to make is an input, or comes from outside of what can be seen."""
        return {name: self._of.get(storage_of(value), self._all) for name, value in results.items()}


def _operation(func: Any, args: Any, result: Any) -> Flow:
    name = str(func.overloadpacket.__name__)
    tensors = list(_tensors(result))
    if func.is_view or not any(tensor.is_floating_point() for tensor in tensors):
        return Flow()
    if name in EXACT and not _adds(name, args) and not _rounds(name, args, tensors):
        return Flow(Step.SELECTED if name in SELECTS else Step.MOVED)
    return Flow(Step.COMPUTED, name.removesuffix("_") in SEPARATE, func in PARTS or name in ("sum", "mean", "cumsum"))


def _adds(name: str, args: Any) -> bool:
    """Operations that move as a rule, and add where two values arrive at one place."""
    if name in ("index_put", "index_put_"):
        return len(args) > 3 and bool(args[3])
    if name.startswith("max_pool") and name.endswith("_backward"):
        window, stride = args[2], args[3] or args[2]
        return any(size > step for size, step in zip(window, stride, strict=False))
    return False


def _rounds(name: str, args: Any, made: list[torch.Tensor]) -> bool:
    """A copy into another floating-point format, or numbers at equal distances."""
    if name == "arange":
        return True
    given = [tensor.dtype for tensor in _tensors(args) if tensor.is_floating_point()]
    return name in ("_to_copy", "copy_") and len({*given, *(tensor.dtype for tensor in made)}) > 1


def _tensors(tree: Any) -> Iterable[torch.Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
