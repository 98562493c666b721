"""What one float32 accumulator loses of a sum, measured on the very values that are added.

The worst case grows with the square of the number of terms and would forgive a kernel that leaves most of them out.
What a sequential sum really loses is seen by adding up short segments, each from the exact sum of everything before
it: their errors are the errors of the sequential sum, and all segments of all rows are added at the same time, on any
device. The errors of a row have a common part (terms too small to change the sum, or so alike that all are rounded in
one direction), which counts as often as there are segments, and a random part, which counts with the root of their
number. A second pass goes from the end to the beginning and finds what is lost before a large term; a third adds the
terms times the root of one half and finds those that the first adds without an error by the luck of their last bits.

Of running sums, an element may lose what the segments up to its own have lost by then.
"""

from __future__ import annotations

import math

import torch

from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.tasks.dtypes import UNIT_OF

OTHER_BITS = math.sqrt(0.5)
SEGMENT = CONSTANTS.sum_segment
FORM, UNIT = torch.float32, UNIT_OF["float32"]


def lost_in_sum(terms: torch.Tensor, unit: float) -> torch.Tensor:
    """How much of the sum over the last axis an honest kernel may lose, in a precision of the given unit.

    It is measured in float32; the loss in another precision is in proportion to its unit.
    """
    count = terms.shape[-1]
    rows = terms.reshape(-1, count)
    segments = _segments(rows)
    sums = segments.sum(-1).double()
    ends = sums.cumsum(-1)
    top = torch.linalg.vector_norm(rows, torch.inf, -1).double()
    if count <= CONSTANTS.sum_short and rows.numel() > CONSTANTS.sum_measured:
        return _in_form(_least(ends, top, count), unit, terms, terms.shape[:-1])
    starts, last = _accumulators(ends)
    loss = _least(ends - starts, top, count)
    every = _every(rows.numel(), segments.shape[1])
    chosen = slice(every // 2, None, every)
    before, after = (ends - sums - starts)[:, chosen], (last - ends)[:, chosen]
    along = segments[:, chosen].permute(2, 0, 1).contiguous().to(FORM)
    for start, added, factor in (
        (before, along, 1.0),
        (after, along.flip(0), 1.0),
        (before * OTHER_BITS, along * OTHER_BITS, OTHER_BITS),
    ):
        loss = torch.maximum(loss, _extrapolated(_errors(start, added), every).div_(factor))
    return _in_form(loss, unit, terms, terms.shape[:-1])


def lost_in_running_sums(terms: torch.Tensor, unit: float) -> torch.Tensor:
    """How much of each running sum along the last axis an honest kernel may lose, as `lost_in_sum` measures it."""
    count = terms.shape[-1]
    rows = terms.reshape(-1, count)
    least = rows.double().cumsum(-1).abs_().cummax(-1).values.mul_(UNIT * CONSTANTS.sum_floor * math.sqrt(count))
    segments = _segments(rows)
    sums = segments.sum(-1).double()
    ends = sums.cumsum(-1)
    starts, _ = _accumulators(ends)
    every = _every(rows.numel(), segments.shape[1])
    chosen = slice(every // 2, None, every)
    before = (ends - sums - starts)[:, chosen]
    along = segments[:, chosen].permute(2, 0, 1).contiguous().to(FORM)
    loss = torch.maximum(
        _extrapolated_along(_errors(before, along), every),
        _extrapolated_along(_errors(before * OTHER_BITS, along * OTHER_BITS), every).div_(OTHER_BITS),
    )
    of_segment = torch.arange(segments.shape[1], device=rows.device).div_(every, rounding_mode="floor")
    spread = loss[:, of_segment.clamp_max_(loss.shape[1] - 1)].repeat_interleave(SEGMENT, 1)[:, :count]
    return _in_form(torch.maximum(least, spread), unit, terms, terms.shape)


def _segments(rows: torch.Tensor) -> torch.Tensor:
    """Rows, segments of a row, terms of a segment; the last segment is filled up with zeros."""
    count = rows.shape[1]
    padded = rows if count % SEGMENT == 0 else torch.nn.functional.pad(rows, (0, -count % SEGMENT))
    return padded.view(rows.shape[0], -1, SEGMENT)


def _accumulators(ends: torch.Tensor) -> tuple[torch.Tensor | float, torch.Tensor]:
    """Of each segment: the running sum where its accumulator begins and where it ends; a long row needs several."""
    longest = CONSTANTS.sum_longest // SEGMENT
    count = ends.shape[-1]
    if count <= longest:
        return 0.0, ends[:, -1:]
    number = torch.arange(count, device=ends.device) // longest
    bounds = torch.nn.functional.pad(ends[:, longest - 1 :: longest], (1, 0))
    following = ends[:, ((number + 1) * longest - 1).clamp_max_(count - 1)]
    return bounds[:, number], following


def _least(running: torch.Tensor, top: torch.Tensor, count: int) -> torch.Tensor:
    """What is allowed where little was seen to be lost: additions that round independently of each other."""
    return torch.maximum(running.abs().amax(-1), top) * (UNIT * CONSTANTS.sum_floor * math.sqrt(count))


def _every(terms: int, segments: int) -> int:
    """One segment in so many is measured: an odd number, so that a regular pattern cannot hide in it."""
    wanted = min(terms // CONSTANTS.sum_measured, segments // CONSTANTS.sum_least_segments)
    return max(1, wanted - 1 + wanted % 2)


def _errors(start: torch.Tensor, terms: torch.Tensor) -> torch.Tensor:
    """Of each segment: the error of adding `terms` (first axis) to `start`, one after the other."""
    total = start.to(FORM)
    exact = total.double() + terms.sum(0, dtype=torch.float64)
    for term in terms.unbind(0):
        total = total + term
    return total.double() - exact


def _extrapolated(errors: torch.Tensor, every: int) -> torch.Tensor:
    """The loss of whole rows, from the errors of one in `every` segments."""
    random = errors.square().sum(-1).sqrt_()
    common = (errors.sum(-1).abs_() - random).clamp_min_(0.0)
    return (common * every + random * (CONSTANTS.sum_random * math.sqrt(every))).mul_(CONSTANTS.sum_factor)


def _extrapolated_along(errors: torch.Tensor, every: int) -> torch.Tensor:
    """The loss up to each measured segment, which does not shrink again where errors happen to cancel."""
    random = errors.square().cumsum(-1).sqrt_()
    common = (errors.cumsum(-1).abs_() - random).clamp_min_(0.0).cummax(-1).values
    return (common * every + random * (CONSTANTS.sum_random * math.sqrt(every))).mul_(CONSTANTS.sum_factor)


def _in_form(loss: torch.Tensor, unit: float, terms: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    loss = (loss * (unit / UNIT)).nan_to_num_(0.0, 0.0, 0.0)
    return loss.to(terms.dtype).view(shape)
