"""Evaluates a reference as if every step of it were rounded coarsely, to see how far rounding may carry.

Perturbing the inputs alone would show how well the operation is conditioned and miss what its steps cancel:
the gradient of a cross entropy is p - 1 with p nearly 1, where p moves by a rounding error and the inputs
by nothing. So the inputs and every floating-point result of every step that computes (moving, selecting and
comparing are exact) are multiplied by 1 + h or 1 - h at random. Three kinds of step get more:

- Fused operations that cancel inside are taken apart (`PARTS`), so that their steps are seen.
- A long sum gets noise that grows with its length up to `LONGEST`: added left to right in one accumulator,
  a long tail of small terms is rounded away, an error that grows with the length and does not average out.
- A convolution also gets noise in proportion to the largest value of its plane: Winograd and FFT transforms
  mix neighbours, so that a small value beside a large one carries the large one's rounding.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.judge.oracle.kinks import KINKS, Places, Site, Sites

TABLE = 1 << 22
PART = TABLE // 2
SHORT, LONGEST = 512, 2048

# Operations whose results are exact: they move, select or compare.
_MOVES = """
    _local_scalar_dense _to_copy _unsafe_view abs adaptive_max_pool2d amax amin arange argmax argmin
    bucketize cat ceil clamp clamp_max clamp_min clone constant_pad_nd copy copy_ cummax cummin embedding
    empty empty_like empty_strided fill fill_ flip floor full full_like gather hardtanh heaviside im2col
    index index_copy index_put index_put_ index_select masked_fill masked_fill_ masked_scatter max
    max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices maximum min minimum
    neg neg_ new_empty new_full new_ones new_zeros nonzero ones ones_like reflection_pad2d repeat
    repeat_interleave replication_pad2d resize_ roll round scalar_tensor scatter select_scatter
    slice_backward slice_scatter sort squeeze_ stack take topk tril triu trunc unsqueeze_
    upsample_nearest2d where zero_ zeros zeros_like
"""
EXACT = frozenset(_MOVES.split())
SUMS = frozenset(("cumsum", "linalg_vector_norm", "mean", "norm", "std", "sum", "var", "var_mean"))
WEIGHT_OF_CONVOLUTION = {"convolution": 1, "convolution_backward": 2}

aten = torch.ops.aten


def _softmax(x: torch.Tensor, dim: int, _: bool) -> torch.Tensor:
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.sum(dim, keepdim=True)


def _log_softmax(x: torch.Tensor, dim: int, _: bool) -> torch.Tensor:
    below = x - x.amax(dim, keepdim=True)
    return below - torch.exp(below).sum(dim, keepdim=True).log()


def _softmax_backward(grad: torch.Tensor, result: torch.Tensor, dim: int, _: torch.dtype) -> torch.Tensor:
    weighted = grad * result
    return weighted - result * weighted.sum(dim, keepdim=True)


def _log_softmax_backward(grad: torch.Tensor, result: torch.Tensor, dim: int, _: torch.dtype) -> torch.Tensor:
    return grad - torch.exp(result) * grad.sum(dim, keepdim=True)


def _logsumexp(x: torch.Tensor, dim: list[int], keepdim: bool = False) -> torch.Tensor:
    top = x.amax(dim, keepdim=True)
    total = torch.exp(x - top).sum(dim, keepdim=True).log() + top
    return total if keepdim else total.squeeze(dim)


PARTS: dict[Any, Callable[..., torch.Tensor]] = {
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
    aten._softmax_backward_data.default: _softmax_backward,
    aten._log_softmax_backward_data.default: _log_softmax_backward,
    aten.logsumexp.default: _logsumexp,
}


@lru_cache(maxsize=4)
def _factors(h: float, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0x5EED)
    signs = torch.randint(0, 2, (TABLE,), generator=generator, dtype=torch.int8)
    return signs.to(device, torch.float64).mul_(2.0).sub_(1.0).mul_(h).add_(1.0).to(dtype)


class Noise:
    """Factors 1 + h and 1 - h from random places of a fixed table: a multiplication, and nothing is drawn."""

    def __init__(self, h: float, seed: int) -> None:
        self._h = h
        self._chance = random.Random(seed)

    def applied(self, value: torch.Tensor) -> torch.Tensor:
        if value.numel() <= PART:
            return value * self._slice(value).view(value.shape)
        moved = value.clone(memory_format=torch.contiguous_format)
        self.apply_(moved)
        return moved

    def apply_(self, value: torch.Tensor) -> None:
        if value.numel() <= PART:
            value.mul_(self._slice(value).view(value.shape))
        elif value.is_contiguous():
            flat = value.view(-1)
            for start in range(0, flat.numel(), PART):
                self.apply_(flat[start : start + PART])
        else:
            for part in value.unbind(0):
                self.apply_(part)

    def apply_to_sum_(self, value: torch.Tensor, length: int) -> None:
        """Noise for a sum of `length` terms."""
        growth = min(max(length, SHORT), LONGEST) / SHORT
        value.add_(self.applied(value).sub_(value), alpha=growth)

    def mix_(self, value: torch.Tensor) -> None:
        """Noise in proportion to the largest value of each plane: of all axes behind the second."""
        largest = value.abs().amax(tuple(range(2, value.dim())), keepdim=True)
        value.add_(self.applied(largest.expand(value.shape))).sub_(largest)

    def _slice(self, value: torch.Tensor) -> torch.Tensor:
        table = _factors(self._h, value.device, value.dtype)
        start = self._chance.randrange(TABLE - value.numel() + 1)
        return table[start : start + value.numel()]


class Steps(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches one evaluation of a reference, operation by operation."""

    def __init__(self, sites: Sites) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sites = sites
        self._reached = 0

    def pass_kink(self, value: torch.Tensor, places: Places) -> torch.Tensor:
        """What the operation gets to see instead of `value`."""
        raise NotImplementedError

    def leave_kink(self, result: torch.Tensor, places: Places) -> None:
        """Called with what came out of a kink and stands for its argument."""

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Carries out an operation without a kink."""
        return func(*args, **kwargs)

    def next_site(self, value: torch.Tensor) -> Site | None:
        """The recorded site; nothing where a reference that branches on its data went another way."""
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


class Record(Steps):  # type: ignore[no-untyped-call]
    """The plain evaluation, which finds the sites."""

    def pass_kink(self, value: torch.Tensor, places: Places) -> torch.Tensor:
        self.sites.record(value, places)
        return value

    def leave_kink(self, result: torch.Tensor, places: Places) -> None:
        self.sites.settle(result, places)


class Probe(Steps):  # type: ignore[no-untyped-call]
    """An evaluation with noise on every step, pinned to the reference's side of every kink."""

    def __init__(self, sites: Sites, noise: Noise) -> None:
        super().__init__(sites)
        self._noise = noise

    def pass_kink(self, value: torch.Tensor, places: Places) -> torch.Tensor:
        site = self.next_site(value)
        return value if site is None else site.pin(value)

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func in PARTS:
            with self:
                return PARTS[func](*args, **kwargs)
        result = func(*args, **kwargs)
        name = _name(func)
        if not func.is_view and name not in EXACT:
            for tensor in tree_leaves(result):
                if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel():
                    self._disturb(name, tensor, args)
        return result

    def _disturb(self, name: str, result: torch.Tensor, args: Any) -> None:
        if name in SUMS:
            length = args[0].shape[args[1]] if name == "cumsum" else args[0].numel() // result.numel()
            self._noise.apply_to_sum_(result, length)
        else:
            self._noise.apply_(result)
        weight = WEIGHT_OF_CONVOLUTION.get(name)
        if weight is not None and result.dim() > 2 and max(args[weight].shape[2:]) > 1:
            self._noise.mix_(result)


class Push(Steps):  # type: ignore[no-untyped-call]
    """An evaluation on one side of every kink: up or down, or each value at random where a seed is given."""

    def __init__(self, sites: Sites, direction: float, seed: int | None = None) -> None:
        super().__init__(sites)
        self._direction = direction
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)

    def pass_kink(self, value: torch.Tensor, places: Places) -> torch.Tensor:
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
