"""Liger's layer normalisation: forward, and forward with backward."""

from liger_kernel.ops.layer_norm import layer_norm_backward, layer_norm_forward


def forward(x, weight, bias, eps):
    return layer_norm_forward(x, weight, bias, eps)[0]


def backward(grad_out, x, weight, bias, eps):
    _, x, mean, rstd, *_ = layer_norm_forward(x, weight, bias, eps)
    return layer_norm_backward(grad_out, x, weight, bias, mean, rstd)
