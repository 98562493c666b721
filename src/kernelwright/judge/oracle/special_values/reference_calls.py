"""What the ATen calls of a reference tell about special values: whether it only moves data, multiplies, sorts, and
which whole numbers it compares indices with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.judge.oracle.right.operations import EXACT, WEIGHT_OF_CONVOLUTION
from kernelwright.tasks.model import Task
from kernelwright.tasks.reference import Argument, run_reference

# The operands of products, as places among the arguments.
_OPERANDS = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "linear", "matmul"), slice(0, 2)),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv"), slice(1, 3)),
    "convolution": slice(0, 2),
    "convolution_backward": slice(0, 3),
}
_ATTENTION = "_scaled_dot_product"  # queries, keys and values come first
_SORTS = frozenset(("sort", "topk", "kthvalue", "median", "nanmedian", "mode", "argsort", "msort"))
_COMPARES = frozenset(("gt", "ge", "lt", "le", "eq", "ne"))
_PLACES = frozenset(("dim", "dims", "size", "start", "end", "step", "reduction", "index", "axis", "dtype", "layout"))


@dataclass
class Calls:
    """`numbers` are whole numbers that stand beside a tensor of whole numbers in a call, as `ignore_index` does."""

    moves: bool = True  # rounds nothing
    convolves: bool = False  # with a window of more than one element
    sorts: bool = False  # so that among equal values the order is not said
    counts: bool = False  # turns NaN, infinities or too large values into whole numbers, which they do not have
    infinite_operand: bool = False  # of a product
    numbers: set[int] = field(default_factory=set)
    thresholds: set[float] = field(default_factory=set)  # which floating-point values are compared with


UNKNOWN = Calls(moves=False, convolves=True, sorts=True, counts=True)


class CallRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches one evaluation of a reference."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = Calls()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(func.overloadpacket.__name__)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        self._note(func, name, args, tensors)
        result = func(*args, **kwargs)
        if name == "_to_copy" and tensors[0].is_floating_point() and not result.dtype.is_floating_point:
            self.calls.counts |= result.dtype != torch.bool and not _countable(tensors[0], result.dtype)
        return result

    def _note(self, func: Any, name: str, args: Any, tensors: list[torch.Tensor]) -> None:
        calls = self.calls
        calls.moves &= func.is_view or name in EXACT or not any(tensor.is_floating_point() for tensor in tensors)
        calls.sorts |= name in _SORTS
        weight = WEIGHT_OF_CONVOLUTION.get(name)
        calls.convolves |= weight is not None and max(args[weight].shape[2:], default=1) > 1
        operands = args[slice(0, 3) if name.startswith(_ATTENTION) else _OPERANDS.get(name, slice(0))]
        calls.infinite_operand |= any(bool(torch.isinf(operand).any()) for operand in operands)
        if name in _COMPARES and any(tensor.is_floating_point() for tensor in tensors):
            calls.thresholds |= {float(value) for value in args if type(value) in (int, float)}
        if not func.is_view and any(_whole(tensor) for tensor in tensors):
            calls.numbers |= _numbers(func, args)


def _numbers(func: Any, args: Any) -> set[int]:
    declared = (argument.name for argument in func._schema.arguments)
    given = zip(declared, args, strict=False)
    return {value for name, value in given if type(value) is int and name not in _PLACES}


def _countable(values: torch.Tensor, form: torch.dtype) -> bool:
    """Whether every value has a whole number of the format: NaN is not below its most."""
    return values.device.type == "meta" or bool((values.abs() < torch.iinfo(form).max).all())


def _whole(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and tensor.dtype != torch.bool


def calls_of(task: Task, inputs: Mapping[str, Argument]) -> Calls:
    recorder = CallRecorder()
    with recorder:
        run_reference(task, inputs)
    return recorder.calls
