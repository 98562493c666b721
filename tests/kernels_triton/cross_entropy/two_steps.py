"""Cross entropy: the loss of each row by a kernel, and their mean by another."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_loss(logits, target, losses, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * classes
    label = tl.load(target + row)
    most, total = -float("inf"), 0.0
    for begin in range(0, classes, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        values = tl.load(logits + at, mask=at < classes, other=-float("inf"))
        higher = tl.maximum(most, tl.max(values, axis=0))
        shift = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(most - shift) + tl.sum(tl.exp(values - shift), axis=0)
        most = higher
    valid = label >= 0
    chosen = tl.load(logits + label, mask=valid, other=0.0)
    tl.store(losses + row, tl.where(valid, most + tl.log(total) - chosen, 0.0))


@triton.jit
def mean_of(losses, target, out, rows, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, rows, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(losses + at, mask=at < rows, other=0.0)
        count += tl.where(tl.load(target + at, mask=at < rows, other=-1) >= 0, 1.0, 0.0)
    tl.store(out, tl.sum(total, axis=0) / tl.sum(count, axis=0))


def forward(logits, target):
    rows, classes = logits.shape
    losses = torch.empty(rows, device=logits.device, dtype=torch.float32)
    out = torch.empty((), device=logits.device, dtype=torch.float32)
    row_loss[(rows,)](logits, target, losses, classes, BLOCK=min(4096, triton.next_power_of_2(classes)))
    mean_of[(1,)](losses, target, out, rows, BLOCK=1024)
    return out
