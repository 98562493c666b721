"""The gated unit of flash-linear-attention, and its gradient by autograd."""

import torch
from fla.modules.activations.ops import SwiGLUFunction


def forward(a, b):
    return SwiGLUFunction.apply(a, b)


def backward(grad_out, a, b):
    a = a.detach().requires_grad_()
    b = b.detach().requires_grad_()
    return torch.autograd.grad(forward(a, b), (a, b), grad_out)
