"""Products and convolutions as operations that are linear in each of two sides: what both the yardstick and the
shortened references have to know of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten
Change = Callable[[torch.Tensor], torch.Tensor]


def same(value: torch.Tensor) -> torch.Tensor:
    return value


@dataclass(frozen=True)
class Bilinear:
    """The places of the operands on either side, and how to leave out what is only added."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    without_added: Callable[[list[Any], dict[str, Any]], None] = lambda args, kwargs: None


def _no_beta(args: list[Any], kwargs: dict[str, Any]) -> None:
    args[0], kwargs["beta"] = args[0].to(args[1].dtype), 0


def _no_bias(args: list[Any], kwargs: dict[str, Any]) -> None:
    args[2] = None


def _no_bias_gradient(args: list[Any], kwargs: dict[str, Any]) -> None:
    args[10] = [args[10][0], args[10][1], False]


BILINEAR: dict[Any, Bilinear] = {
    aten.mm.default: Bilinear((0,), (1,)),
    aten.bmm.default: Bilinear((0,), (1,)),
    aten.mv.default: Bilinear((0,), (1,)),
    aten.dot.default: Bilinear((0,), (1,)),
    aten.addmm.default: Bilinear((1,), (2,), _no_beta),
    aten.addmv.default: Bilinear((1,), (2,), _no_beta),
    aten.baddbmm.default: Bilinear((1,), (2,), _no_beta),
    aten.convolution.default: Bilinear((0,), (1,), _no_bias),
    aten.convolution_backward.default: Bilinear((0,), (1, 2), _no_bias_gradient),
}


def multiplies(func: Any, args: tuple[Any, ...]) -> bool:
    return func in BILINEAR and args[BILINEAR[func].left[0]].is_floating_point()


def multiplied(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], left: Change, right: Change) -> list[Any]:
    """The results of a product whose operands were changed, without what is only added; None where there is none."""
    places, given, named = BILINEAR[func], list(args), dict(kwargs)
    for change, side in ((left, places.left), (right, places.right)):
        for place in side:
            given[place] = change(given[place])
    places.without_added(given, named)
    answer = func(*given, **named)
    return list(answer) if isinstance(answer, tuple | list) else [answer]
