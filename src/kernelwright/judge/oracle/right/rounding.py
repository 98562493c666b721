"""Evaluates a reference as if every step of it were rounded coarsely, to see how far rounding may carry.

Perturbing the inputs alone would show how well the operation is conditioned and miss what its steps cancel:
the gradient of a cross entropy is p - 1 with p nearly 1, where p moves by a rounding error and the inputs
by nothing. So the inputs and every floating-point result of every step that computes (moving, selecting and
comparing are exact) are multiplied by 1 plus or minus about h at random. Three kinds of step get more (see
`operations`):

- Fused operations that cancel inside are taken apart, so that their steps are seen.
- A sum also gets noise as large as what one accumulator loses of it (see `sums`).
- A convolution also gets noise in proportion to the largest value, or product, of its plane: Winograd and FFT
  transforms mix neighbours, so that a small value beside a large one carries the large one's rounding.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.judge.oracle.right.discontinuities import DISCONTINUITIES, Site, Sites, Thresholds
from kernelwright.judge.oracle.right.flow import Flows
from kernelwright.judge.oracle.right.fused import PARTS
from kernelwright.judge.oracle.right.operations import EXACT, WEIGHT_OF_CONVOLUTION, largest_products, lost

TABLE = 1 << 22
PART = TABLE // 2


@lru_cache(maxsize=4)
def _factors(h: float, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """1 + h * m, where m has either sign and a size between 1/2 and 3/2.

    Equal sizes would cancel exactly, every other time, where two steps meet; sizes near zero would say
    nothing.
    """
    generator = torch.Generator().manual_seed(0x5EED)
    drawn = torch.rand(TABLE, generator=generator, dtype=torch.float64).mul_(2.0).sub_(1.0)
    drawn.add_(torch.sign(drawn), alpha=0.5)
    return drawn.mul_(h).add_(1.0).to(device, dtype)


class Noise:
    """Factors near 1 from random places of a fixed table: a multiplication, and nothing is drawn."""

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

    def lose_(self, value: torch.Tensor, loss: torch.Tensor) -> None:
        """Noise of a given size."""
        value.add_(self.applied(loss).sub_(loss), alpha=1 / self._h)

    def mix_(self, value: torch.Tensor, factors: torch.Tensor | None) -> None:
        """Noise in proportion to the largest value of each plane, or to what its largest factors would give.

        A plane is all axes behind the second. Its largest factors may never meet, one of them at the edge or opposite
        to a zero; a transform mixes their rounding into the plane all the same.
        """
        largest = value.abs().amax(tuple(range(2, value.dim())), keepdim=True)
        if factors is not None:
            largest = torch.maximum(largest, factors.view(largest.shape))
        value.add_(self.applied(largest.expand(value.shape)).sub_(largest), alpha=CONSTANTS.mixing)

    def _slice(self, value: torch.Tensor) -> torch.Tensor:
        table = _factors(self._h, value.device, value.dtype)
        start = self._chance.randrange(TABLE - value.numel() + 1)
        return table[start : start + value.numel()]


class OperationMode(TorchDispatchMode, ABC):  # type: ignore[no-untyped-call]
    """Watches one evaluation of a reference, operation by operation."""

    def __init__(self, sites: Sites) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sites = sites
        self._reached = 0

    @abstractmethod
    def enter_discontinuity(self, value: torch.Tensor, thresholds: Thresholds) -> torch.Tensor:
        """What the operation gets to see instead of `value`."""

    def leave_discontinuity(self, result: torch.Tensor, thresholds: Thresholds) -> None:
        """Called with what came out of a discontinuity and stands for its argument."""

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Carries out an operation without a discontinuity."""
        return func(*args, **kwargs)

    def next_site(self) -> Site | None:
        """The recorded site; nothing where a reference that branches on its data has more of them than before."""
        number, self._reached = self._reached, self._reached + 1
        return self.sites.found[number] if number < len(self.sites.found) else None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        discontinuity = DISCONTINUITIES.get(func)
        if discontinuity is None or not args[discontinuity.argument].is_floating_point():
            return self.compute(func, args, kwargs or {})
        thresholds = discontinuity.thresholds(args)
        args = _replaced(
            func, args, discontinuity.argument, self.enter_discontinuity(args[discontinuity.argument], thresholds)
        )
        result = func(*args, **(kwargs or {}))
        if discontinuity.argument == 0 and result.is_floating_point():
            self.leave_discontinuity(result, thresholds)
        return result


class SiteRecorder(OperationMode):  # type: ignore[no-untyped-call]
    """The plain evaluation, which finds the sites, and how the results come from the inputs."""

    def __init__(self, sites: Sites) -> None:
        super().__init__(sites)
        self.flows = Flows()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.flows.saw(func, args, kwargs or {}, result)
        return result

    def enter_discontinuity(self, value: torch.Tensor, thresholds: Thresholds) -> torch.Tensor:
        self.sites.record(value, thresholds)
        return value

    def leave_discontinuity(self, result: torch.Tensor, thresholds: Thresholds) -> None:
        self.sites.settle(result, thresholds)


class Losses:
    """What the sums of a reference lose, in the order in which it reaches them; found in the first probe."""

    def __init__(self, unit: float) -> None:
        self._unit = unit
        self._found: list[torch.Tensor | None] = []

    def at(self, place: int, name: str, args: tuple[Any, ...], result: torch.Tensor) -> torch.Tensor | None:
        if place == len(self._found):
            loss = lost(name, args, result, self._unit)
            self._found.append(loss if loss is not None and bool(loss.any()) else None)
        loss = self._found[place]
        return loss if loss is not None and loss.shape == result.shape else None


class RoundingProbe(OperationMode):  # type: ignore[no-untyped-call]
    """The reference with noise on every step, pinned to the reference's side of every discontinuity."""

    def __init__(self, sites: Sites, losses: Losses, noise: Noise) -> None:
        super().__init__(sites)
        self._losses, self._noise = losses, noise
        self._disturbed = 0

    def enter_discontinuity(self, value: torch.Tensor, thresholds: Thresholds) -> torch.Tensor:
        for place in thresholds:
            site = self.next_site()
            value = value if site is None else site.pin(value, place)
        return value

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func in PARTS:
            with self:
                whole = PARTS[func](*args, **kwargs)
            if whole is not NotImplemented:
                return whole
        result = func(*args, **kwargs)
        name = _name(func)
        if not func.is_view and name not in EXACT:
            for tensor in tree_leaves(result):
                if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel():
                    self._disturb(name, tensor, args)
        return result

    def _disturb(self, name: str, result: torch.Tensor, args: Any) -> None:
        self._noise.apply_(result)
        loss = self._losses.at(self._disturbed, name, args, result)
        self._disturbed += 1
        if loss is not None:
            self._noise.lose_(result, loss)
        weight = WEIGHT_OF_CONVOLUTION.get(name)
        if weight is not None and result.dim() > 2 and max(args[weight].shape[2:]) > 1:
            self._noise.mix_(result, largest_products(args[0], args[1]) if name == "convolution" else None)


class SideProbe(OperationMode):  # type: ignore[no-untyped-call]
    """The reference on one side of every discontinuity: up or down, or each value at random where a seed is given."""

    def __init__(self, sites: Sites, direction: float, seed: int | None = None) -> None:
        super().__init__(sites)
        self._direction = direction
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)

    def enter_discontinuity(self, value: torch.Tensor, thresholds: Thresholds) -> torch.Tensor:
        for place in thresholds:
            site = self.next_site()
            if site is not None and site.width is not None:
                value = site.push(value, place, self._towards(site.width))
        return value

    def _towards(self, width: torch.Tensor) -> torch.Tensor | float:
        if self._generator is None:
            return self._direction
        signs = torch.randint(0, 2, width.shape, generator=self._generator, dtype=torch.int8).to(width.device)
        return signs.mul_(2).sub_(1) * self._direction


def _replaced(func: Any, args: tuple[Any, ...], position: int, value: torch.Tensor) -> tuple[Any, ...]:
    if value is args[position]:
        return args
    if _name(func).endswith("_"):
        args[position].copy_(value)
        return args
    return (*args[:position], value, *args[position + 1 :])


def _name(func: Any) -> str:
    return str(func.overloadpacket.__name__)
