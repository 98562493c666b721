"""The errors that a result has if the factors of its products are shortened, for any reference.

The reference runs in float64, and to every product and convolution is added the error of a shortened form of it:
`tf32` (both factors rounded to 11 bits), `2xtf32` (one of them; the other in two parts, as 2xTF32 and fp16 in two
parts do), `bf16x3` (both in two parts of 8 bits, the product of the low parts left out). Each is predicted with
factors rounded to the nearest and with factors cut off, since a tensor core cuts what is not rounded beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.judge.oracle.errors.bilinear import Change, multiplied, multiplies, same

Results = dict[str, torch.Tensor]
Error = Callable[[Any, tuple[Any, ...], dict[str, Any]], list[Any]]

TF32_BITS, BF16_BITS = 11, 8


def kept(value: torch.Tensor, bits: int, nearest: bool) -> torch.Tensor:
    """The leading significant bits of float32 values, rounded to the nearest (ties to even) or cut off."""
    drop = 24 - bits
    words = value.float().contiguous().view(torch.int32)
    if nearest:
        words = words + ((words >> drop) & 1) + ((1 << (drop - 1)) - 1)
    return (words >> drop << drop).view(torch.float32)


def _lost(value: torch.Tensor, bits: int, nearest: bool, parts: int = 1) -> torch.Tensor:
    """What is left of a factor behind its leading parts."""
    rest = value.float()
    for _ in range(parts):
        rest = rest - kept(rest, bits, nearest)
    return rest


def _second(value: torch.Tensor, nearest: bool) -> torch.Tensor:
    return kept(_lost(value, BF16_BITS, nearest), BF16_BITS, nearest)


def _one_side(left: bool, nearest: bool, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    lose: Change = partial(_lost, bits=TF32_BITS, nearest=nearest)
    return multiplied(func, args, kwargs, lose if left else _single, _single if left else lose)


def _bf16x3(nearest: bool, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    behind: Change = partial(_lost, bits=BF16_BITS, nearest=nearest, parts=2)
    low: Change = partial(_second, nearest=nearest)
    parts = (
        multiplied(func, args, kwargs, behind, _single),
        multiplied(func, args, kwargs, _single, behind),
        multiplied(func, args, kwargs, low, low),
    )
    return [None if one[0] is None else sum(one[1:], one[0]) for one in zip(*parts, strict=True)]


def _single(value: torch.Tensor) -> torch.Tensor:
    return same(value).float()


class ShortenedFactors(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds to every product the error of a shortened form. Notes whether there was a product."""

    def __init__(self, error: Error) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._error = error
        self.products = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not multiplies(func, args):
            return result
        self.products += 1
        errors = self._error(func, args, kwargs or {})
        for part, error in zip(result if isinstance(result, tuple | list) else (result,), errors, strict=True):
            if error is not None:
                part.sub_(error.to(part.dtype))
        return result


def predicted_errors(call: Callable[[], Results], index: Results, exact: Results) -> dict[str, Results]:
    """The error of the sampled elements of results in every shortened form, by the form's name; nothing for a reference
    without products.

    `call` evaluates the reference in float64; `exact` is what it gives at `index`. Errors are small, so those of both
    sides add up to those of tf32.
    """
    found: dict[str, Results] = {}
    for nearest, how in ((True, "nearest"), (False, "cut")):
        forms = {
            f"2xtf32 left {how}": partial(_one_side, True, nearest),
            f"2xtf32 right {how}": partial(_one_side, False, nearest),
            f"bf16x3 {how}": partial(_bf16x3, nearest),
        }
        for name, error in forms.items():
            mode = ShortenedFactors(error)
            with sdpa_kernel(SDPBackend.MATH), mode:
                moved = call()
            if not mode.products:
                return {}
            found[name] = {key: torch.take(moved[key], index[key]).double() - exact[key] for key in exact}
        left, right = (found[f"2xtf32 {side} {how}"] for side in ("left", "right"))
        found[f"tf32 {how}"] = {key: left[key] + right[key] for key in exact}
    return found
