"""Liger's dynamic tanh."""

from liger_kernel.ops.dyt import liger_dyt_fwd


def forward(x, alpha, weight, bias):
    return liger_dyt_fwd(x, alpha, weight, bias)
