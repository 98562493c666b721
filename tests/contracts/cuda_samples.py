"""Signatures and sources that the tests of the `cuda` contract share."""

from __future__ import annotations

from kernelwright.contracts.candidate import Candidate
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

SCALE = 'extern "C" __global__ void scale(const float* x, float* out, int n) { if (threadIdx.x < n) out[0] = x[0]; }'
PLAN = """
import kw


def plan(x, factor, out):
    return kw.plan(kw.launch("scale", 1, 32, x, out, kw.i32(x.numel())))
"""


def vectors(count: int = 100, dtype: str = "float32") -> Signature:
    return Signature(
        (
            TensorSpec("x", dtype, (count,), (1,), "input"),
            ScalarSpec("factor", 2.0),
            TensorSpec("out", dtype, (count,), (1,), "output"),
        )
    )


def candidate(kernel: str = SCALE, plan: str = PLAN) -> Candidate:
    return Candidate("cuda", f"{kernel}\n/* plan.py\n{plan}\n*/\n")
