"""The product by torch, the rest in Triton; the constructor makes a table and a transposed weight."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def epilogue(y, scales, out, n, COLS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.maximum(tl.load(y + at, mask=inside), 0.0) * tl.load(scales + at % COLS, mask=inside)
    tl.store(out + at, value, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.register_buffer("scales", torch.full((out_features,), 2.0 * scale) / 2)
        self.transposed = self.linear.weight.t().contiguous()

    def forward(self, x):
        y = torch.addmm(self.linear.bias, x, self.transposed)
        out = torch.empty_like(y)
        epilogue[(triton.cdiv(y.numel(), 256),)](y, self.scales, out, y.numel(), COLS=y.shape[1], BLOCK=256)
        return out
