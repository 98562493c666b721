"""How a reference rounds to the format of its results: noticed, or left out, so that rounding is allowed for once.

A result in a narrow format is right between the two ends of its tolerance, each rounded to the format. The tolerance
is that of the quantity before it was rounded: evaluated with its rounding, one step of the format would count as an
error, and of eight bits a step is a large one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.judge.oracle.right.operations import EXACT
from kernelwright.tasks.formats import is_narrow

ROUNDINGS = ("round", "round_")  # to the nearest whole number, ties to even


class CastRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notices whether a reference itself rounds between its steps: casts down, and computes with what it cast; and
    whether it makes whole numbers from others."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._cast: dict[int, torch.Tensor] = {}  # kept, so that no other tensor takes its storage
        self.rounds = False
        self.to_whole = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
        name = _name(func)
        if name == "_to_copy" and given:
            if not result.is_floating_point():
                self.to_whole |= result.dtype != torch.bool
            elif result.element_size() < given[0].element_size():
                self._cast[int(result.untyped_storage()._cdata)] = result
        elif not func.is_view and name not in EXACT:
            self.rounds |= any(int(tensor.untyped_storage()._cdata) in self._cast for tensor in given)
        return result


class WithoutNarrowing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Leaves out casts of wider floats to narrow formats."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _name(func) == "_to_copy" and _wide(args[0]) and is_narrow(kwargs.get("dtype") or torch.float64):
            kwargs = kwargs | {"dtype": args[0].dtype}
        return func(*args, **kwargs)


class WithoutWholeNumbers(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Leaves out roundings to the nearest whole number, and casts to integers: what is left is the quantity itself."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, _name(func)
        if name in ROUNDINGS and not kwargs.get("decimals"):
            return args[0].clone() if name == "round" else args[0]
        target = kwargs.get("dtype")
        if name == "_to_copy" and _wide(args[0]) and target and not target.is_floating_point and target != torch.bool:
            kwargs = kwargs | {"dtype": args[0].dtype}
        return func(*args, **kwargs)


def _wide(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and not is_narrow(value.dtype)


def _name(func: Any) -> str:
    return str(func.overloadpacket.__name__)
