"""The sigmoid of flash-linear-attention, and its gradient by autograd."""

import torch
from fla.modules.activations.ops import SigmoidFunction


def forward(x):
    return SigmoidFunction.apply(x)


def backward(grad_out, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(forward(x), (x,), grad_out)
