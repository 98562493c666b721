"""Torch's operators as kernels of our own: in Triton's interpreter they compute what torch does."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kernelwright.contracts.triton.toolchain.ptxas import absence
from kernelwright.contracts.triton.toolchain.record import CONFINED

pytestmark = pytest.mark.skipif(bool(absence()), reason=absence())
SCRIPT = """
import importlib.util, json, sys
folder = sys.argv[1]
place = folder + "/__init__.py"
spec = importlib.util.spec_from_file_location("kw_confined", place, submodule_search_locations=[folder])
sys.modules["kw_confined"] = importlib.util.module_from_spec(spec)
import numpy as np
import torch
from kw_confined.arithmetic import Arithmetic
from kw_confined.interpreted import as_on_a_gpu, rounded
from kw_confined.refusal import Refusals
from kw_confined.tensors import StandInMemory, constant_word, dense

as_on_a_gpu()
torch.manual_seed(0)
memory = StandInMemory(0, 0, Refusals())
memory.copy = lambda target, source: target.copy_(source)
kernels = Arithmetic(memory)
x, y, row = torch.randn(6, 70, 5), torch.randn(6, 70, 5), torch.randn(5)
column, whole, half = torch.randn(70, 1), torch.arange(42).reshape(6, 7), torch.randn(6, 7).half()
cases = {
    "add": (x, y), "sub": (x, row), "mul": (x.transpose(0, 1), y.transpose(0, 1)), "div": (x, column), "rsub": (x, 2.0),
    "maximum": (x, y), "minimum": (x[:, ::2], y[:, 1::2]), "neg": (x,), "exp": (x,), "sqrt": (x.abs(),),
    "rsqrt": (x.abs() + 1,), "reciprocal": (x,), "abs": (x,), "relu": (x,), "log": (x.abs() + 1,),
}
found = {}
def compare(name, wanted, done, given):
    same = torch.allclose(given.double(), wanted.double(), rtol=2e-6, atol=1e-6, equal_nan=True)
    found[name] = bool(done) and same
for name, args in cases.items():
    wanted = getattr(torch, name)(*args)
    given = torch.empty_like(wanted)
    compare(name, wanted, kernels.do(name, args, {}, given), given)
for name, source, dims, keep in (
    ("sum", x, [0], False), ("sum", x, [1, 2], False), ("sum", x, [1], True), ("mean", x, [2], False),
    ("sum", x.transpose(0, 2), [0, 2], False), ("mean", x, [], False), ("sum", whole, [0], False),
):
    wanted = getattr(torch, name)(source, dim=dims or None, keepdim=keep)
    given = torch.empty_like(wanted)
    compare(f"{name} {dims} {keep} {source.stride()}", wanted, kernels.do(name, (source, dims, keep), {}, given), given)
for name, source, dtype in (
    ("to half", x, torch.float16), ("from half", half, torch.float32), ("to float", whole, torch.float32),
):
    wanted = source.to(dtype)
    given = torch.empty_like(wanted)
    compare(name, wanted, kernels.do("_to_copy", (source,), {}, given), given)
turned = x.permute(2, 0, 1)
given = torch.empty(turned.shape)
compare("contiguous", turned, kernels.do("clone", (turned,), {}, given), given)
given = torch.empty(3, 5)
compare("fill", torch.full((3, 5), 0.3), kernels.fill(given, 0.3) is None, given)
compare("in place", whole * 3, kernels.do("mul_", (held := whole.clone(), 3), {}, held), held)
found["float64 with a number is refused"] = not kernels.do("mul", (x.double(), 0.1), {}, x.double())
found["softmax is not ours"] = not kernels.do("_softmax", (x, 0, False), {}, x)
found["words"] = [constant_word(torch.float32, 1.0), constant_word(torch.bfloat16, 1.0), constant_word(torch.int64, 1)]
found["dense"] = [dense(x), dense(x.transpose(0, 1)), dense(x[:, ::2])]
values = np.array([1 + 2**-13, 1 + 2**-10, -3.0, np.inf, 0.1], np.float32)
found["tf32"] = [float(value) for value in rounded(values)[:4]] + [abs(float(rounded(values)[4]) - 0.1) < 2e-4]
print(json.dumps(found))
"""


def test_they_compute_what_torch_computes() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(CONFINED)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout)
    assert found.pop("words") == [[0x3F800000, 4], [0x3F80, 2], None]
    assert found.pop("tf32") == [1.0, 1 + 2**-10, -3.0, float("inf"), True]
    assert found.pop("dense") == [True, True, False]
    assert all(found.values()) and len(found) > 28, [name for name, right in found.items() if not right]
