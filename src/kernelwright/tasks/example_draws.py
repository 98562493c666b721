"""Draws for whole numbers and masks of a captured example that a range alone would not say.

A mask drawn at random leaves rows without anything in them, on which a softmax is NaN; labels that mark some places as
ignored hold one number far from all others, and nothing in between is a label.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kernelwright.tasks.declarations import CustomDraw

IGNORED = 0.125  # the share of labels that are ignored


def mask_rows(first: bool | None = None) -> CustomDraw:
    """Zeros and ones, of any dtype. Along the last dimension there is one of each, where it has room for both; every
    row begins with `first`, if that is given, as the rows of a mask of lengths do."""

    def mask_rows(
        generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, sizes: Mapping[str, int]
    ) -> torch.Tensor:
        drawn = torch.randint(0, 2, shape, generator=generator, device=generator.device, dtype=torch.bool)
        if not shape:
            return drawn.to(dtype)
        if first is not None:
            drawn[..., 0] = first
        if shape[-1] > 1:
            begin = 0 if first is None else 1  # a row of one kind gets the other somewhere
            alike = (drawn == drawn[..., :1]).all(-1, keepdim=True)
            place = torch.randint(begin, shape[-1], (*shape[:-1], 1), generator=generator, device=generator.device)
            here = torch.arange(shape[-1], device=generator.device) == place
            drawn ^= alike & here
        return drawn.to(dtype)

    return CustomDraw(mask_rows, (0, 2))


def labels(low: int, high: int, ignored: int) -> CustomDraw:
    """Whole numbers from `low` up to but without `high`, and here and there `ignored`; the first never is."""

    def labels(
        generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, sizes: Mapping[str, int]
    ) -> torch.Tensor:
        drawn = torch.randint(low, high, shape, generator=generator, device=generator.device)
        left_out = torch.rand(shape, generator=generator, device=generator.device) < IGNORED
        left_out.view(-1)[:1] = False
        return drawn.masked_fill_(left_out, ignored).to(dtype)

    return CustomDraw(labels, (low, high))


def draw_text(value: torch.Tensor) -> str:
    """How whole numbers or a mask are drawn, from those of an example, as a task file has it."""
    if not value.numel():
        return "integers(0, 2)"
    flat = value.detach().reshape(-1).to(torch.int64)
    low, high = int(flat.min()), int(flat.max())
    if low >= 0 and high <= 1:
        begins = value.detach().to(torch.int64)[..., 0] if value.dim() else flat
        alike = bool((begins == begins.reshape(-1)[0]).all())
        return f"mask_rows({bool(begins.reshape(-1)[0]) if alike and value.dim() else ''})"
    others = flat[flat != low]
    if low < 0 and others.numel() and int(others.min()) >= 0:  # such as -100, or -1
        return f"labels({int(others.min())}, {high + 1}, {low})"
    if low == high > 1:  # all lengths are the full one, or all indices the same
        low = 1
    return f"integers({low}, {high + 1})"
