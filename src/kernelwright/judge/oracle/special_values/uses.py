"""Evaluates a reference as kernels do that round a computed value once for each of its uses.

A compiler fuses a multiplication into the subtraction behind it and not into the maximum before it, and a gradient
computes scores again that the forward had. Where values are so large that one rounding of a score is a large number,
`exp(score - maximum)` overflows then, in kernels as honest as the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from kernelwright.judge.oracle.right.fused import TakenApart
from kernelwright.judge.oracle.right.operations import EXACT
from kernelwright.tasks.model import Task
from kernelwright.tasks.reference import Argument, run_reference


class EachUseRounded(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What a step computed is moved by up to one rounding, each time it is used; inputs are not, nor what steps that
    only move or select make of them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._computed = WeakIdKeyDictionary()
        self._generator = torch.Generator().manual_seed(0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        exact = func.is_view or func.overloadpacket.__name__ in EXACT
        computed = not exact or any(self._is_computed(leaf) for leaf in tree_leaves((args, kwargs)))
        if not exact and not func._schema.is_mutable:
            args, kwargs = tree_map(self._used, (args, kwargs))
        result = func(*args, **kwargs)
        for leaf in tree_leaves(result):
            if computed and isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                self._computed[leaf] = True
        return result

    def _is_computed(self, leaf: object) -> bool:
        return isinstance(leaf, torch.Tensor) and leaf in self._computed

    def _used(self, leaf: Any) -> Any:
        if not self._is_computed(leaf) or not leaf.is_floating_point():
            return leaf
        noise = torch.rand(leaf.shape, generator=self._generator, dtype=leaf.dtype).mul_(2).sub_(1)
        moved = torch.addcmul(leaf, leaf, noise, value=torch.finfo(leaf.dtype).eps)
        return torch.where(torch.isfinite(leaf), moved, leaf)  # a mask's -inf moves nowhere


def with_each_use_rounded(task: Task, inputs: Mapping[str, Argument]) -> dict[str, torch.Tensor]:
    """Results in float32, in which kernels compute narrower formats, or in float64 where an input is."""
    wide = any(isinstance(value, torch.Tensor) and value.dtype is torch.float64 for value in inputs.values())
    with sdpa_kernel(SDPBackend.MATH), EachUseRounded(), TakenApart():
        return run_reference(task, inputs, torch.float64 if wide else torch.float32)
