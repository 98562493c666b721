"""Liger's cross entropy, which reads on the host how many rows count."""

from liger_kernel.ops.cross_entropy import cross_entropy_forward


def forward(logits, target):
    return cross_entropy_forward(logits.clone(), target, None, -100, 0.0, 0.0, "mean", None, False)[0]
