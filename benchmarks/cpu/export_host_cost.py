"""What a call of a loaded kernel costs on the host: as a function, as an operator, with gradients, compiled.

    python benchmarks/cpu/export_host_cost.py [--rounds 200] [--only rmsnorm] [--no-compile] [--save]

Both host sides, Python alone and the fast path in C++, are timed in turn with torch's own fused operator, in one
process, on tensors so small that hardly anything is computed. Times are those of the quickest and the median batch;
ratios are of the quickest, since a busy machine can only add to a batch. The kernels are those of tests/kernels with
verdicts that are made up: nothing is said about their speed. Their parallel regions are left out, which cost a third of
a microsecond even with one thread. Operators are compared with torch's own, called through `torch.ops` as well.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.shared.record import RESULTS, provenance, save
from tests.export import making

from kernelwright.contracts import Candidate
from kernelwright.export.loading import load_proved
from kernelwright.export.standalone import fastbuild
from kernelwright.export.standalone.kernel import FallbackWarning, LoadedKernel

ROWS, COLS = 1, 64
CALLS, BACKWARDS = 50, 20  # in a batch
TASK = """from typing import Any
import torch
import torch.nn.functional as F
from kernelwright.tasks import Task, integers, normal, tensor

def {name}({parameters}):
    return {expression}

task = Task(
    reference={name},
    inputs={{{inputs}}},
    public=[{{"rows": 64, "cols": 256}}, {{"rows": 32, "cols": 512}}],
    hidden={{"rows": (1, 256), "cols": (64, 1024)}},
)
"""
T = "torch.Tensor"
OPS: Any = torch.ops.aten


@dataclass(frozen=True)
class Case:
    name: str
    parameters: str
    expression: str
    inputs: str
    kernel: str
    backward: str
    fused: Callable[..., torch.Tensor]
    operator: Callable[..., torch.Tensor]
    arguments: Callable[[], tuple[Any, ...]]

    def load(self, folder: Path) -> LoadedKernel:
        text = TASK.format(name=self.name, parameters=self.parameters, expression=self.expression, inputs=self.inputs)
        path = making.task_file(folder, text, self.name)
        proofs = [
            making.proved(path, _serial(making.source(self.name, self.kernel))),
            making.proved(f"{path}:backward", _serial(making.source(f"{self.name}_backward", self.backward))),
        ]
        return load_proved(proofs, allow=("sizes",))


def _serial(given: Candidate) -> Candidate:
    lines = [line for line in given.source.splitlines() if not line.startswith("#pragma omp parallel")]
    return Candidate(given.contract, "\n".join(lines) + "\n", given.name)


def _x() -> torch.Tensor:
    return torch.randn(ROWS, COLS)


CASES = (
    Case(
        "rmsnorm", f"x: {T}, weight: {T}, eps: float",
        "x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight",
        '"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1.0, 0.2)), "eps": 1e-6',
        "simd.cpp", "simd.cpp",
        lambda x, weight, eps: F.rms_norm(x, (COLS,), weight, eps),
        lambda x, weight, eps: OPS.rms_norm.default(x, [COLS], weight, eps),
        lambda: (_x(), torch.randn(COLS), 1e-6),
    ),
    Case(
        "softmax", f"x: {T}", "torch.softmax(x, dim=-1)", '"x": tensor("rows", "cols")',
        "vector_exp.cpp", "vector_exp.cpp",
        lambda x: F.softmax(x, -1),
        lambda x: OPS.softmax.int(x, -1),
        lambda: (_x(),),
    ),
    Case(
        "layernorm", f"x: {T}, weight: {T}, bias: {T}, eps: float",
        "F.layer_norm(x, x.shape[-1:], weight, bias, eps)",
        '"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1.0, 0.2)), '
        '"bias": tensor("cols", draw=normal(0.0, 0.5)), "eps": 1e-5',
        "two_pass.cpp", "simd.cpp",
        lambda x, weight, bias, eps: F.layer_norm(x, (COLS,), weight, bias, eps),
        lambda x, weight, bias, eps: OPS.layer_norm.default(x, [COLS], weight, bias, eps),
        lambda: (_x(), torch.randn(COLS), torch.randn(COLS), 1e-5),
    ),
    Case(
        "cross_entropy", f"logits: {T}, target: {T}", "F.cross_entropy(logits, target)",
        '"logits": tensor("rows", "cols"), "target": tensor("rows", draw=integers(0, "cols"), dtype="int64")',
        "vector_exp.cpp", "vector_exp.cpp",
        F.cross_entropy,
        lambda logits, target: OPS.cross_entropy_loss.default(logits, target),
        lambda: (_x(), torch.randint(0, COLS, (ROWS,))),
    ),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", choices=[one.name for one in CASES])
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out, which takes a minute")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/export_host_cost.json")
    given = parser.parse_args()
    where = provenance()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", FallbackWarning)
    fastbuild.build()
    found = {
        case.name: measured(case, given.rounds, not given.no_compile)
        for case in CASES
        if given.only in (None, case.name)
    }
    for name, ways in found.items():
        for way, times in ways.items():
            print(f"{name:14} {way:22} " + "  ".join(_shown(*pair) for pair in times.items()))
    if given.save:
        save(RESULTS / "export_host_cost.json", {**where, "rows": ROWS, "cols": COLS, "kernels": found})


def _shown(side: str, numbers: dict[str, float]) -> str:
    ratio = f" ({numbers['of_fused']:.2f})" if "of_fused" in numbers else ""
    return f"{side} {numbers['least']:.2f} µs{ratio}"


def measured(case: Case, rounds: int, compiled: bool) -> dict[str, dict[str, dict[str, float]]]:
    """By way and by who answers, in microseconds a call."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[fastbuild.SWITCH] = "off"
        plain = case.load(Path(folder))
        os.environ[fastbuild.SWITCH] = ""
        fast = case.load(Path(folder))
    if plain.fast is not None or fast.fast is None:
        raise SystemExit("the fast path is not as it was asked for")
    values = case.arguments()
    leaves = tuple(one.clone().requires_grad_() if _is_float(one) else one for one in values)
    sides: dict[str, Callable[..., Any]] = {"python": plain, "fast path": fast, "torch": case.fused}
    operators = {"python": plain.operator, "fast path": fast.operator, "torch": case.operator}
    for side in (plain, fast):
        torch.testing.assert_close(side(*values), case.fused(*values), rtol=1e-4, atol=1e-4)
    ways: dict[str, dict[str, dict[str, float]]] = {}
    for name, calls in (("function", sides), ("operator", operators)):
        with torch.no_grad():
            ways[name] = in_turn({side: partial(call, *values) for side, call in calls.items()}, CALLS, rounds)
        ways[f"{name}, gradient"] = in_turn(
            {side: partial(call, *leaves) for side, call in calls.items()}, CALLS, rounds
        )
        both = {side: partial(_both_ways, call, leaves) for side, call in calls.items()}
        ways[f"{name}, both ways"] = in_turn(both, BACKWARDS, rounds)
    if compiled:
        torch.compiler.reset()
        made = {side: torch.compile(_wrapped(call), fullgraph=True) for side, call in sides.items()}
        with torch.no_grad():
            ways["compiled"] = in_turn({side: partial(call, *values) for side, call in made.items()}, CALLS, rounds)
        both = {side: partial(_both_ways, call, leaves) for side, call in made.items()}
        ways["compiled, both ways"] = in_turn(both, BACKWARDS, rounds)
    for side in (plain, fast):  # a scalar gradient may lie at the very end of a page, where the reference answers
        answered = side.counts
        if sum(answered.values()) > 1.01 * answered["kernel"]:
            raise SystemExit(f"{case.name}: the reference answered: {answered}")
    return ways


def _wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: call(*arguments)


def _both_ways(call: Callable[..., torch.Tensor], leaves: tuple[Any, ...]) -> None:
    result = call(*leaves)
    torch.autograd.grad(result, [one for one in leaves if _is_float(one)], torch.ones_like(result))


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def in_turn(calls: dict[str, Callable[[], Any]], count: int, rounds: int) -> dict[str, dict[str, float]]:
    times: dict[str, list[float]] = {side: [] for side in calls}
    for call in calls.values():
        for _ in range(count):
            call()
    for _ in range(rounds):
        for side, call in calls.items():
            begin = time.perf_counter_ns()
            for _ in range(count):
                call()
            times[side].append((time.perf_counter_ns() - begin) / count / 1e3)
    least = {side: min(found) for side, found in times.items()}
    return {
        side: {"least": round(least[side], 3), "median": round(statistics.median(found), 3)}
        | ({} if side == "torch" else {"of_fused": round(least[side] / least["torch"], 3)})
        for side, found in times.items()
    }


if __name__ == "__main__":
    main()
