"""Evaluates a reference in float64 as if every step of it were rounded, to see how far rounding may carry.

Perturbing the inputs alone would show how well the operation is conditioned and miss what its steps cancel: the
gradient of a cross entropy is p - 1 with p nearly 1, where p moves by a rounding error and the inputs by nothing.
So each floating-point result of each step that computes (moving, selecting and comparing are exact) is multiplied
by 1 + h or 1 - h at random, and the inputs as well.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.judge.oracle.kinks import KINKS, Place, Site, Sites

TABLE = (1 << 21) + 9

EXACT = frozenset(
    "_local_scalar_dense _to_copy _unsafe_view abs adaptive_max_pool2d amax amin arange argmax argmin bucketize "
    "cat ceil clamp clamp_max clamp_min clone constant_pad_nd copy_ cummax cummin embedding empty empty_like "
    "empty_strided fill fill_ flip floor full full_like gather hardtanh heaviside im2col index index_copy "
    "index_put_ index_select masked_fill masked_fill_ masked_scatter max max_pool2d_with_indices "
    "max_pool2d_with_indices_backward max_pool3d_with_indices maximum min minimum neg new_empty new_full new_ones "
    "new_zeros nonzero one_hot ones ones_like reflection_pad2d relu relu_ repeat repeat_interleave replication_pad2d "
    "resize_ roll round scalar_tensor scatter select_scatter sgn sign slice_backward slice_scatter sort stack take "
    "threshold threshold_backward topk tril triu trunc unique upsample_nearest2d where zero_ zeros zeros_like".split()
)


@lru_cache(maxsize=8)
def _table(h: float, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0x5EED)
    signs = torch.randint(0, 2, (TABLE,), generator=generator, dtype=torch.int8)
    return signs.to(device, torch.float64).mul_(2.0).sub_(1.0).mul_(h).add_(1.0).to(dtype)


class Noise:
    """Factors 1 + h and 1 - h at random places of a fixed table, which costs a multiplication and no drawing."""

    def __init__(self, h: float, seed: int) -> None:
        self.h = h
        self._chance = random.Random(seed)

    def apply_(self, value: torch.Tensor) -> None:
        table = _table(self.h, value.device, value.dtype)
        if value.numel() <= TABLE:
            value.mul_(self._factors(table, value.numel()).view(value.shape))
        elif value.is_contiguous():
            for part in value.view(-1).split(TABLE):
                part.mul_(self._factors(table, part.numel()))
        else:
            for part in value.unbind(0):
                self.apply_(part)

    def applied(self, value: torch.Tensor) -> torch.Tensor:
        if value.numel() <= TABLE:
            table = _table(self.h, value.device, value.dtype)
            return value * self._factors(table, value.numel()).view(value.shape)
        moved = value.clone(memory_format=torch.contiguous_format)
        self.apply_(moved)
        return moved

    def _factors(self, table: torch.Tensor, count: int) -> torch.Tensor:
        start = self._chance.randrange(TABLE - count + 1)
        return table[start : start + count]


class Steps(TorchDispatchMode):
    """Watches one evaluation of a reference, operation by operation."""

    def __init__(self, sites: Sites) -> None:
        super().__init__()
        self.sites = sites
        self._reached = 0

    def pass_kink(self, value: torch.Tensor, places: tuple[Place, ...]) -> torch.Tensor:
        """What the operation gets to see instead of `value`."""
        raise NotImplementedError

    def leave_kink(self, result: torch.Tensor, places: tuple[Place, ...]) -> None:
        """Called with what came out of a kink that stands for its argument."""

    def computed(self, result: torch.Tensor) -> None:
        """Called with every floating-point result that had to be rounded."""

    def next_site(self, value: torch.Tensor) -> Site | None:
        """The recorded site, or nothing where a reference that branches on its data went another way."""
        place, self._reached = self._reached, self._reached + 1
        if place >= len(self.sites.found) or self.sites.found[place].value.shape != value.shape:
            return None
        return self.sites.found[place]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kink = KINKS.get(func)
        if kink is None or not args[kink.argument].is_floating_point():
            result = func(*args, **(kwargs or {}))
            if not func.is_view and _name(func) not in EXACT:
                for tensor in tree_leaves(result):
                    if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                        self.computed(tensor)
            return result
        places = kink.places(args)
        args = _replaced(func, args, kink.argument, self.pass_kink(args[kink.argument], places))
        result = func(*args, **(kwargs or {}))
        if kink.argument == 0 and result.is_floating_point():
            self.leave_kink(result, places)
        return result


class Record(Steps):
    """The plain evaluation, which finds the sites."""

    def pass_kink(self, value: torch.Tensor, places: tuple[Place, ...]) -> torch.Tensor:
        self.sites.record(value, places)
        return value

    def leave_kink(self, result: torch.Tensor, places: tuple[Place, ...]) -> None:
        self.sites.settle(result, places)


class Probe(Steps):
    """An evaluation with noise on every step, pinned to the reference's side of every kink."""

    def __init__(self, sites: Sites, noise: Noise) -> None:
        super().__init__(sites)
        self._noise = noise

    def pass_kink(self, value: torch.Tensor, places: tuple[Place, ...]) -> torch.Tensor:
        site = self.next_site(value)
        return value if site is None else site.pin(value)

    def computed(self, result: torch.Tensor) -> None:
        self._noise.apply_(result)


class Push(Steps):
    """An evaluation on one side of every kink: up, down, or (with a seed) each value at random."""

    def __init__(self, sites: Sites, direction: float, seed: int | None = None) -> None:
        super().__init__(sites)
        self._direction = direction
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)

    def pass_kink(self, value: torch.Tensor, places: tuple[Place, ...]) -> torch.Tensor:
        site = self.next_site(value)
        if site is None:
            return value
        if self._generator is None:
            return site.push(value, self._direction)
        signs = torch.randint(0, 2, value.shape, generator=self._generator, dtype=torch.int8).to(value.device)
        return site.push(value, signs.mul_(2).sub_(1) * self._direction)


def _replaced(func: Any, args: tuple[Any, ...], position: int, value: torch.Tensor) -> tuple[Any, ...]:
    if value is args[position]:
        return args
    if _name(func).endswith("_"):
        args[position].copy_(value)
        return args
    return (*args[:position], value, *args[position + 1 :])


def _name(func: Any) -> str:
    return str(func.overloadpacket.__name__)
