"""Liger's gated unit with GELU: forward, and its gradient."""

from liger_kernel.ops.geglu import geglu_backward, geglu_forward


def forward(a, b):
    return geglu_forward(a, b)[2]


def backward(grad_out, a, b):
    return geglu_backward(a.clone(), b.clone(), grad_out.clone())
