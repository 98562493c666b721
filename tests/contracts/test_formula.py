"""A plan becomes a launch formula: what plan() gives at any sizes, the formula gives, and hostile plans get a line."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.cpp import CPP
from kernelwright.contracts.cuda import CUDA
from kernelwright.contracts.cuda.source import read_cuda_candidate, split
from kernelwright.contracts.cuda.toolchain.build import build_cuda
from kernelwright.contracts.cuda.toolchain.builder import BuilderPool
from kernelwright.contracts.cuda.toolchain.formulate import disagreement, formula_of, plan_at
from kernelwright.contracts.cuda.toolchain.portable import through
from kernelwright.contracts.model import BuildFailure, Contract, GpuBuild, PortableBuild, PortableRequest
from kernelwright.contracts.portable import FormulaError, LaunchFormula, NamedSize, PortableKernel
from kernelwright.contracts.symbolic import SymbolicSignature, SymbolicTensor
from kernelwright.contracts.target import HOPPER
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

KERNELS = Path(__file__).parent.parent / "kernels_cuda"
FIXED_SIZES = ("rmsnorm_shared",)  # has a size among its definitions
HOSTILE = {
    "loops over a size": ("for _ in range(rows): pass", "a loop or an index depends on sizes"),
    "looks a size up": ("{}.get(cols)", "a lookup depends on sizes"),
    "rounds a fraction": ("round(cols / 3)", r"round\(\) of what depends on sizes"),
    "puts a size into a name": ("f'{cols}'", "a kernel's name or a definition depends on sizes"),
    "chooses without end": ("n = 0\n    while rows * cols * 3 - n != 5: n += 1", "choices|cases|did not finish"),
    "computes without end": ("n = cols\n    while True: n = n * 3 + rows", "different numbers|did not finish"),
    "nests deeply": ("n = cols\n    for i in range(9000): n = n + rows * i", "different numbers"),
    "calls itself": ("f = lambda n: f(n + 1)\n    f(cols)", "RecursionError|different numbers"),
    "catches everything": (
        "while True:\n        try: str(cols)\n        except BaseException: pass",
        "did not finish",
    ),
    "catches once and goes on": (
        "try: str(cols)\n    except BaseException: pass",
        "a kernel's name or a definition depends on sizes",
    ),
    "chooses at random": (
        "import os\n    x = rows < 3000 + os.urandom(1)[0]\n    bool(x)",
        "choose the same way twice|cases",
    ),
    "computes enormous numbers": ("n = 1 << 4000\n    n + cols", "larger than any size"),
    "keeps a size in a module": ("import math\n    math.kept = getattr(math, 'kept', cols)\n    math.kept + rows", ""),
    "ends itself": ("import os; os._exit(0)", "without a message|not JSON"),
    "raises": ("raise ValueError('no')", "plan.py:6: ValueError: no"),
}
SIGNATURE = SymbolicSignature(
    (NamedSize("rows", 1, 5000), NamedSize("cols", 1, 20000)),
    (
        SymbolicTensor("x", "float32", ("rows", "cols"), "input"),
        SymbolicTensor("weight", "float32", ("cols",), "input"),
        ScalarSpec("eps", 1e-6),
        SymbolicTensor("out", "float32", ("rows", "cols"), "output"),
    ),
)
BODY = """
import kw

def plan(x, weight, eps, out):
    rows, cols = x.shape
    {}
    return kw.plan(kw.launch("f", rows, 256, x, weight, kw.f32(eps), out, kw.i32(cols)))
"""
EVERYTHING = """
import math

import kw


def power(value):
    found = 1
    while found < value:
        found *= 2
    return found


def plan(x, weight, eps, out):
    rows, cols = x.shape
    threads = min(1024, max(32, power(-(-cols // 16))))
    bits = (cols - 1).bit_length()
    shared = 4 * (cols & 255) if rows % 3 == 1 else (cols ^ rows) % 1024
    share = cols / 3 if rows > 10 else 1.5
    kept = kw.scratch("kept", 4 * rows + (cols >> 2), zero=rows < 100)
    one = x.at(min(rows * cols - 1, 7))
    grid = (math.ceil(rows / 7), max(1, min(bits, 60)), 1 + (rows == cols))
    first = kw.launch(f"f<{threads}>", grid, threads, one, kw.f64(share), kw.i64(abs(rows - cols)), shared=shared)
    if cols in (64, 128) or not rows - 77:
        return kw.plan(first, definitions={"SPECIAL": cols == 64})
    second = kw.launch("g", divmod(cols, 9)[0] + 1, 32, kw.struct(kept, kw.u32(int(share))), dependent=bool(rows > 5))
    return kw.plan(first, second, definitions={"WIDE": 4 if cols % 4 == 0 else 1})
"""


def at(rows: int, cols: int) -> tuple[dict[str, int], Signature]:
    full = ((rows, cols), (cols, 1))
    x, out = (TensorSpec(name, "float32", *full, role) for name, role in (("x", "input"), ("out", "output")))
    weight = TensorSpec("weight", "float32", (cols,), (1,), "input")
    return {"rows": rows, "cols": cols}, Signature((x, weight, ScalarSpec("eps", 1e-6), out))


@cache
def formula(plan: str) -> LaunchFormula:
    found = formula_of(plan, SIGNATURE, HOPPER)
    assert isinstance(found, LaunchFormula), found
    assert LaunchFormula.from_json(json.loads(json.dumps(found.to_json()))) == found
    return found


def kernel_plan(name: str) -> str:
    return (KERNELS / name / "plan.py").read_text(encoding="utf-8")


POINTS = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 20000)), min_size=20, max_size=40)
EXPRESSED = sorted(path.name for path in KERNELS.iterdir() if path.is_dir() and path.name not in FIXED_SIZES)


@pytest.mark.parametrize("name", EXPRESSED)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(points=POINTS)
def test_a_formula_gives_what_the_plan_gives(name: str, points: list[tuple[int, int]]) -> None:
    pairs = [at(rows, cols) for rows, cols in (*points, (1, 1), (5000, 20000), (64, 64), (77, 4))]
    assert disagreement(kernel_plan(name), formula(kernel_plan(name)), pairs, HOPPER) is None


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(points=POINTS)
def test_every_kind_of_arithmetic_and_choice(points: list[tuple[int, int]]) -> None:
    pairs = [at(rows, cols) for rows, cols in (*points, (77, 4), (3, 64), (3, 128), (64, 64), (10, 5000), (11, 5000))]
    assert disagreement(EVERYTHING, formula(EVERYTHING), pairs, HOPPER) is None


def test_what_the_ranges_decide_is_not_a_case() -> None:
    found = formula(BODY.format("assert rows <= 5000 and cols > 0"))
    assert len(found.cases) == 1 and not found.branches


def test_sizes_at_which_the_plan_fails_are_not_covered() -> None:
    found = formula(BODY.format("assert rows > 3"))
    assert found.case_at({"rows": 4, "cols": 1}) == 0
    with pytest.raises(FormulaError, match="does not cover"):
        found.case_at({"rows": 3, "cols": 1})


@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_a_hostile_plan_earns_a_line(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.contracts.cuda.toolchain.formulate.SECONDS", 8.0)
    body, message = HOSTILE[what]
    found = formula_of(BODY.format(body), SIGNATURE, HOPPER)
    if not message:  # harmless: every path has a module of its own, and what it keeps elsewhere is one number
        assert isinstance(found, LaunchFormula | BuildFailure)
        return
    assert isinstance(found, BuildFailure), found
    assert len(found.lines) == 1, found.lines
    assert re.search(message, found.lines[0]), found.lines
    if "finish" not in found.lines[0] and "message" not in found.lines[0]:
        assert found.lines[0].startswith("plan.py")


def test_a_plan_that_knows_it_is_watched_is_found_out() -> None:
    plan = BODY.format("cols = cols if type(cols) is int else 7")
    found = disagreement(plan, formula(plan), [at(3, 50)], HOPPER)
    assert isinstance(found, BuildFailure) and "differ at rows=3 cols=50" in found.lines[0]


def test_a_formula_out_of_bounds_is_refused_like_a_plan() -> None:
    found = plan_at(formula(BODY.format("rows = rows * cols * 1000")), {"rows": 5000, "cols": 20000})
    assert isinstance(found, BuildFailure) and "grid" in found.lines[0]


@pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is missing")
@pytest.mark.parametrize("name", ["rmsnorm_vector", "rmsnorm_tma"])
def test_a_candidate_is_built_alike_through_its_formula(name: str) -> None:
    candidate = read_cuda_candidate(KERNELS / name)
    pairs = [at(5, 64), at(300, 1027)]
    signatures = tuple(signature for _, signature in pairs)
    found = formula(split(candidate.source).plan)
    pool = BuilderPool(HOPPER.architecture, 0)
    try:
        plain = build_cuda(candidate, signatures, HOPPER, pool)
        other = build_cuda(candidate, signatures, HOPPER, pool, through(found, {form: sizes for sizes, form in pairs}))
    finally:
        pool.close()
    assert isinstance(plain, GpuBuild) and isinstance(other, GpuBuild)
    assert [one.program for one in plain.built] == [one.program for one in other.built]
    assert [one.modules for one in plain.built] == [one.modules for one in other.built]


def portable(contract: Contract, candidate: Candidate, *pairs: tuple[dict[str, int], Signature]) -> PortableBuild:
    made = contract.portable(candidate, PortableRequest("rmsnorm", SIGNATURE, pairs, HOPPER))
    assert isinstance(made, PortableBuild), made
    assert PortableKernel.read(made.kernel.text()) == made.kernel
    return made


@pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is missing")
def test_a_portable_kernel_holds_at_sizes_that_were_not_listed() -> None:
    made = portable(CUDA, read_cuda_candidate(KERNELS / "rmsnorm_vector"), at(5, 64))
    assert made.kernel.all_sizes and not made.note
    (variant,) = made.kernel.variants
    (module,), planned = variant.at({"rows": 123, "cols": 4567})
    assert module.digest in made.binaries and planned.launches[0].grid == (123, 1, 1)
    assert planned.launches[0].kernel in dict(module.names)


@pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is missing")
def test_a_plan_that_is_not_a_formula_holds_at_listed_sizes_only() -> None:
    made = portable(CUDA, read_cuda_candidate(KERNELS / "rmsnorm_shared"), at(5, 64), at(6, 4096))
    assert not made.kernel.all_sizes and "plan.py:8" in made.note
    (variant,) = made.kernel.variants
    assert variant.at({"rows": 6, "cols": 4096})[1].launches[0].grid == (6, 1, 1)
    with pytest.raises(FormulaError):
        variant.at({"rows": 7, "cols": 4096})


def test_a_host_library_takes_sizes_at_run_time() -> None:
    source = CPP.skeleton((at(2, 3)[1],), "rmsnorm")
    assert CPP.sizes_at_run_time and not CUDA.sizes_at_run_time
    one = portable(CPP, Candidate("cpp", source), at(2, 3))
    other = portable(CPP, Candidate("cpp", source), at(4000, 77), at(1, 1))
    assert one.kernel == other.kernel and one.kernel.all_sizes
    assert one.kernel.sizes_of({"x": (4, 9), "weight": (9,)}) == {"rows": 4, "cols": 9}
    assert one.kernel.shape_of("out", {"rows": 4, "cols": 9}) == (4, 9)
