"""The pieces of CUDA that prompts offer: they compile as they stand, or else models copy our mistakes."""

from __future__ import annotations

import re

import pytest

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.target import HOPPER
from kernelwright.proposers.llm.checks import Builds
from kernelwright.proposers.llm.prompts import render
from kernelwright.tasks.model import Signature, TensorSpec
from tests.proposers.llm import samples

SIGNATURE = Signature((TensorSpec("out", "float32", (64, 64), (64, 1), "output"),))
_FUNCTION = re.compile(r"^__device__ .*?(?:\}$|^\}$)", re.M | re.S)
_INSTRUCTION = re.compile(r"^asm volatile\(.*?\);", re.M | re.S)
PLAN = (
    "import kw\n\n\ndef plan(out):\n"
    "    return kw.plan(kw.launch('pieces', 1, 128, kw.tensor_map(out, (8, 32)), out, shared=4096))\n"
)


def pieces() -> str:
    text = render(samples.ground("cuda").view(samples.request())).user
    return text.split("```cuda\n", 1)[1].split("\n```", 1)[0]


def test_there_are_functions_and_instructions() -> None:
    names = {match[0].split("(")[0].split()[-1] for match in _FUNCTION.finditer(pieces())}
    assert {"last_to_come", "copy16", "tf32", "mma", "wgmma"} <= names
    assert len(_INSTRUCTION.findall(pieces())) >= 7


@pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is not installed")
def test_they_compile() -> None:
    text = pieces()
    functions = "\n".join(match[0] for match in _FUNCTION.finditer(text))
    rest = _FUNCTION.sub("", text)
    instructions = "\n  ".join(_INSTRUCTION.findall(rest))
    kernel = f"""#include <cuda.h>
{functions}
__global__ void pieces(const __grid_constant__ CUtensorMap map, float* out) {{
  extern __shared__ __align__(1024) float tile[];
  __shared__ __align__(8) unsigned long long arrived;
  unsigned barrier = (unsigned)__cvta_generic_to_shared(&arrived), to = (unsigned)__cvta_generic_to_shared(tile);
  int bytes = 1024, col = 0, row = 0, phase = 0;
  {instructions}
  float v = out[threadIdx.x];
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  float c[4] = {{}};
  unsigned a[4] = {{tf32(v), 1, 2, 3}}, b[2] = {{4, 5}};
  mma(c, a, b);
  float sums[32] = {{}};
  wgmma(sums, a, tile);
  copy16(tile, out, true);
  __shared__ unsigned counter;
  if (last_to_come(&counter, 2)) out[threadIdx.x] = c[0] + sums[threadIdx.x % 2];
}}
"""
    fault = Builds((SIGNATURE,), HOPPER)(Candidate("cuda", f"{kernel}\n/* plan.py\n{PLAN}*/\n", "pieces"))
    assert fault is None, fault
