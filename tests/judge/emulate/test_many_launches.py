"""A network is one candidate of hundreds of launches."""

from __future__ import annotations

from tests.proposers.templates.emulated import emulated_errors

from kernelwright.tasks import Task, tensor

LAUNCHES, NUMBERS = 300, 7
NAMES = [f"n{number}" for number in range(NUMBERS)]
SOURCE = f"""
extern "C" __global__ void step(const float* x, float* out, int n, {", ".join(f"float {name}" for name in NAMES)}) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * 2.0f + 0.0f * ({" + ".join(NAMES)});
}}
/* plan.py
import kw

def plan(x, out):
    n = x.size(0)
    numbers = [kw.f32(number) for number in range({NUMBERS})]
    one = kw.launch("step", (n + 255) // 256, 256, x, out, kw.i32(n), *numbers)
    return kw.plan(*([one] * {LAUNCHES}))
*/
"""
DOUBLE = Task(lambda x: x * 2, inputs={"x": tensor("n")}, public=[{"n": 8}], hidden={"n": (4, 9)}, name="double")


def test_the_arguments_of_many_launches_fit_on_the_stack() -> None:
    assert emulated_errors(DOUBLE, SOURCE, {"n": 8}) == []
