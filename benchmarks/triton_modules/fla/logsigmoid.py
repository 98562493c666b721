"""The log sigmoid of flash-linear-attention."""

import torch
from fla.modules.activations.ops import logsigmoid


def forward(x):
    return logsigmoid(x)


def backward(grad_out, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(forward(x), (x,), grad_out)
