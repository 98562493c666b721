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


SUMS = frozenset("sum mean var var_mean std norm linalg_vector_norm cumsum logsumexp".split())
CONVOLUTIONS = {"convolution": 1, "convolution_backward": 2}


def _growth(length: int) -> float:
    return min(max(length / 1024.0, 1.0), 4.0)

aten=torch.ops.aten

def _softmax(x, dim, half_to_float):
    e = torch.exp(x - x.amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)

def _log_softmax(x, dim, half_to_float):
    x = x - x.amax(dim, keepdim=True)
    return x - torch.exp(x).sum(dim, keepdim=True).log()

def _softmax_backward(g, y, dim, dtype):
    gy = g * y
    return gy - y * gy.sum(dim, keepdim=True)

def _log_softmax_backward(g, y, dim, dtype):
    return g - torch.exp(y) * g.sum(dim, keepdim=True)

def _logsumexp(x, dim, keepdim=False):
    top = x.amax(dim, keepdim=True)
    r = torch.exp(x - top).sum(dim, keepdim=True).log() + top
    return r if keepdim else r.squeeze(dim)

PARTS = {aten._softmax.default: _softmax, aten._log_softmax.default: _log_softmax, aten._softmax_backward_data.default: _softmax_backward, aten._log_softmax_backward_data.default: _log_softmax_backward, aten.logsumexp.default: _logsumexp}


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

    def mix_(self, value: torch.Tensor) -> None:
        largest = value.abs().amax(tuple(range(2, value.dim())), keepdim=True)
        noise = largest.expand(value.shape).contiguous()
        self.apply_(noise)
        value.add_(noise).sub_(largest)

    def apply_(self, value: torch.Tensor, growth: float = 1.0) -> None:
        table = _table(self.h, value.device, value.dtype)
        if growth > 1:
            value.add_(self.applied(value) - value, alpha=growth)
            return
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

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Carries out an operation that has no kink."""
        return func(*args, **kwargs)

    def next_site(self, value: torch.Tensor) -> Site | None:
        """The recorded site, or nothing where a reference that branches on its data went another way."""
        place, self._reached = self._reached, self._reached + 1
        if place >= len(self.sites.found) or self.sites.found[place].value.shape != value.shape:
            return None
        return self.sites.found[place]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kink = KINKS.get(func)
        if kink is None or not args[kink.argument].is_floating_point():
            return self.compute(func, args, kwargs or {})
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

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func in PARTS:
            with self:
                return PARTS[func](*args, **kwargs)
        result = func(*args, **kwargs)
        name = _name(func)
        if func.is_view or name in EXACT:
            return result
        for tensor in tree_leaves(result):
            if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
                continue
            if name in SUMS:
                self._noise.apply_(tensor, _growth(args[0].numel() // max(1, tensor.numel())))
            else:
                self._noise.apply_(tensor)
            if name in CONVOLUTIONS and tensor.dim() > 2 and max(tensor.shape[2:]) > 1 and max(args[CONVOLUTIONS[name]].shape[2:]) > 1:
                self._noise.mix_(tensor)
        return result


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
