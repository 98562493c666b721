"""The typical size of a row of errors, which no single element can inflate.

One winner that changes places near a tie (in a gradient of max pooling, say) is an error thousands of times
its neighbours'. A plain mean or RMS would then forgive the whole row; a median costs a sort, and is zero
where more than half the row is. So: a mean, clipped at four times itself a few times over.
"""

from __future__ import annotations

import torch

from kernelwright.judge.oracle.right.constants import CONSTANTS


def row_scale(values: torch.Tensor, least: int, nonzero: bool = False) -> torch.Tensor:
    """The clipped mean of non-negative `values` over each row, in a shape that broadcasts against `values`.

    A row is the last axis, or as many whole rows as make `least` elements. Long rows are sampled at an odd
    stride, so that a regular pattern cannot hide in it. With `nonzero`, zeros do not count as elements.
    """
    if values.numel() == 0:
        return values
    length = values.shape[-1] if values.dim() else 1
    if length < least:
        block = length * -(-least // length)
        return _block_scale(values.reshape(-1), block, nonzero).view(values.shape)
    scale = _clipped_mean(values.reshape(-1, length), nonzero)
    return scale.view((*values.shape[:-1], 1) if values.dim() else ())


def _block_scale(flat: torch.Tensor, block: int, nonzero: bool) -> torch.Tensor:
    """One scale per element, equal within a block; a remainder at the end has that of the last `block`
    elements.
    """
    if flat.numel() <= block:
        return _clipped_mean(flat.view(1, -1), nonzero).repeat(flat.numel())
    whole = flat.numel() // block * block
    scales = _clipped_mean(flat[:whole].view(-1, block), nonzero).repeat_interleave(block)
    if whole == flat.numel():
        return scales
    end = _clipped_mean(flat[-block:].view(1, -1), nonzero).repeat(flat.numel() - whole)
    return torch.cat((scales, end))


def _clipped_mean(rows: torch.Tensor, nonzero: bool) -> torch.Tensor:
    stride = max(1, rows.shape[1] // CONSTANTS.sampled)
    stride -= 1 - stride % 2
    sample = rows[:, ::stride].contiguous() if stride > 1 else rows
    count: torch.Tensor | int = sample.shape[1]
    if nonzero:
        count = (sample > 0).sum(1, keepdim=True).clamp_min_(1)
    mean = sample.sum(1, keepdim=True) / count
    for _ in range(CONSTANTS.clip_passes):
        mean = torch.minimum(sample, mean * CONSTANTS.clip).sum(1, keepdim=True) / count
    return mean.squeeze(1)
