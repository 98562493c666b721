"""The layer normalisation of flash-linear-attention, and its gradient by autograd."""

import torch
from fla.modules.norm.layernorm import layer_norm


def forward(x, weight, bias, eps):
    return layer_norm(x, weight, bias, eps=eps)


def backward(grad_out, x, weight, bias, eps):
    x = x.detach().requires_grad_()
    weight = weight.detach().requires_grad_()
    bias = bias.detach().requires_grad_()
    return torch.autograd.grad(forward(x, weight, bias, eps), (x, weight, bias), grad_out)
