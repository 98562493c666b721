"""The gradient of cross entropy: how many rows count, and then a program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def counted(target, count, rows, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    labels = tl.load(target + at, mask=at < rows, other=-1)
    tl.atomic_add(count, tl.sum(tl.where(labels >= 0, 1.0, 0.0), axis=0))


@triton.jit
def gradient(grad, logits, target, count, out, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * classes
    out += row * classes
    label = tl.load(target + row)
    scale = tl.load(grad) / tl.load(count)
    scale = tl.where(label >= 0, scale, 0.0)
    most, total = -float("inf"), 0.0
    for begin in range(0, classes, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        values = tl.load(logits + at, mask=at < classes, other=-float("inf"))
        higher = tl.maximum(most, tl.max(values, axis=0))
        shift = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(most - shift) + tl.sum(tl.exp(values - shift), axis=0)
        most = higher
    for begin in range(0, classes, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        values = tl.load(logits + at, mask=at < classes, other=-float("inf"))
        share = tl.exp(values - most) / total - tl.where(at == label, 1.0, 0.0)
        tl.store(out + at, tl.where(label >= 0, share * scale, 0.0), mask=at < classes)


def backward(grad_out, logits, target):
    rows, classes = logits.shape
    count = torch.zeros(1, device=logits.device, dtype=torch.float32)
    out = torch.empty_like(logits)
    counted[(triton.cdiv(rows, 1024),)](target, count, rows, BLOCK=1024)
    gradient[(rows,)](grad_out, logits, target, count, out, classes, BLOCK=min(4096, triton.next_power_of_2(classes)))
    return out
