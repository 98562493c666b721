"""The softmax of flash-linear-attention."""

import torch
from fla.ops.utils.softmax import softmax_bwd, softmax_fwd


def forward(x):
    return softmax_fwd(x, torch.float32)


def backward(grad_out, x):
    return softmax_bwd(softmax_fwd(x, torch.float32), grad_out, torch.float32)
