"""Numeric flags under which references are computed: none that trades accuracy for speed.

They are set around every study and put back after it, whatever an import or a reference may have set.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def strict_flags() -> Iterator[None]:
    """No TF32 and no bf16 in float32 products and convolutions (cuDNN's default), no half-precision sums."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    precision = torch.get_float32_matmul_precision()
    convolutions = cudnn.allow_tf32
    sums = matmul.allow_fp16_reduced_precision_reduction, matmul.allow_bf16_reduced_precision_reduction
    torch.set_float32_matmul_precision("highest")
    cudnn.allow_tf32 = False
    matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        cudnn.allow_tf32 = convolutions
        matmul.allow_fp16_reduced_precision_reduction, matmul.allow_bf16_reduced_precision_reduction = sums
