"""Building `cuda` candidates without a GPU: NVRTC in a sandbox, artefacts by content, errors that name the line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.contracts import nvrtc
from kernelwright.contracts.brief import brief
from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.cuda import CUDA
from kernelwright.contracts.cuda.source import read_cuda_candidate
from kernelwright.contracts.cuda.toolchain.build import build_cuda
from kernelwright.contracts.cuda.toolchain.builder import BuilderPool
from kernelwright.contracts.cuda.toolchain.cubin import parameter_sizes, resources
from kernelwright.contracts.cuda.toolkit import has_toolkit
from kernelwright.contracts.model import BuildFailure, GpuBuild, GpuBuilt
from kernelwright.contracts.target import HOPPER, architecture
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Signature, TensorSpec
from kernelwright.tasks.resolve import resolve
from tests.contracts.cuda_samples import PLAN, SCALE, candidate, vectors

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available())
KERNELS = Path(__file__).parents[1] / "kernels_cuda"
needs_toolkit = pytest.mark.skipif(not has_toolkit(), reason="the CUDA headers are not installed")


@pytest.fixture(scope="module")
def pool() -> Iterator[BuilderPool]:
    made = BuilderPool(HOPPER.architecture)
    yield made
    made.close()


def built(made: GpuBuild | BuildFailure) -> tuple[GpuBuilt, ...]:
    assert isinstance(made, GpuBuild), made
    return made.built


def lines(made: GpuBuild | BuildFailure) -> str:
    assert isinstance(made, BuildFailure)
    return "\n".join(made.lines)


def test_a_program_has_addresses_names_and_resources(pool: BuilderPool) -> None:
    (one,) = built(build_cuda(candidate(), (vectors(),), HOPPER, pool))
    step = one.program.launches[0]
    assert step.function == "scale" and [argument.size for argument in step.arguments] == [8, 8, 4]
    assert [block.fill for block in one.program.blocks] == ["received", "output"]
    assert [block.writable for block in one.program.blocks] == [False, True]
    (kernel,) = one.kernels
    assert (kernel.name, kernel.spill_stores, kernel.spill_loads) == ("scale", 0, 0)
    assert one.modules[0][:4] == b"\x7fELF"


def test_a_module_is_compiled_once(pool: BuilderPool) -> None:
    first = built(build_cuda(candidate(), (vectors(50), vectors(60)), HOPPER, pool))
    assert first[0].digest == first[1].digest
    assert built(build_cuda(candidate(), (vectors(70),), HOPPER, pool))[0].cached
    other = candidate(SCALE + "\n// another")
    assert built(build_cuda(other, (vectors(50),), HOPPER, pool))[0].digest != first[0].digest


def test_definitions_make_a_module_for_each_workload(pool: BuilderPool) -> None:
    kernel = 'extern "C" __global__ void f(float* out) { out[COUNT - 1] = COUNT; }'
    plan = (
        "import kw\ndef plan(x, factor, out):\n"
        "    return kw.plan(kw.launch('f', 1, 1, out), definitions={'COUNT': x.numel()})\n"
    )
    two = built(build_cuda(candidate(kernel, plan), (vectors(5), vectors(6)), HOPPER, pool))
    assert two[0].digest != two[1].digest


def test_templates_are_named_by_expressions(pool: BuilderPool) -> None:
    kernel = "namespace n { template <class T, int N> __global__ void f(T* out, T v) { out[N] = v; } }"
    plan = (
        "import kw\ndef plan(x, factor, out):\n"
        "    return kw.plan(kw.launch('n::f<float, 3>', 1, 1, out, kw.f32(1)),"
        " kw.launch('n::f<double, 1>', 1, 1, out, kw.f64(1)))\n"
    )
    (one,) = built(build_cuda(candidate(kernel, plan), (vectors(),), HOPPER, pool))
    assert {step.function for step in one.program.launches} == {"_ZN1n1fIfLi3EEEvPT_S1_", "_ZN1n1fIdLi1EEEvPT_S1_"}


def test_workloads_that_differ_in_kernels_alone_share_a_module(pool: BuilderPool) -> None:
    kernel = "template <int N> __global__ void f(float* out) { out[0] = N; }"
    plan = "import kw\ndef plan(x, factor, out):\n    return kw.plan(kw.launch(f'f<{x.numel()}>', 1, 1, out))\n"
    two = built(build_cuda(candidate(kernel, plan), (vectors(5), vectors(6)), HOPPER, pool))
    assert two[0].digest == two[1].digest
    assert [one.program.launches[0].function for one in two] == ["_Z1fILi5EEvPf", "_Z1fILi6EEvPf"]
    assert [[kernel.name for kernel in one.kernels] for one in two] == [["f<5>"], ["f<6>"]]


def test_an_error_names_the_line_of_the_source(pool: BuilderPool) -> None:
    text = lines(build_cuda(candidate("\n\n__global__ void scale() { nonsense; }"), (vectors(),), HOPPER, pool))
    assert "kernel.cu(3): error" in text and "nonsense" in text


@pytest.mark.parametrize(
    ("kernel", "plan", "message"),
    [
        (SCALE, PLAN.replace('"scale"', '"other"'), "other"),
        (SCALE, PLAN.replace(", kw.i32(x.numel())", ""), "takes 3 arguments of 8, 8, 4 bytes"),
        (SCALE, PLAN.replace("kw.i32", "kw.i64"), "gives 3 arguments of 8, 8, 8 bytes"),
        (SCALE, PLAN.replace("x, out,", "{'kind': 'pointer', 'name': 'y', 'offset': 0}, out,"), "y is not a tensor"),
        (SCALE, PLAN.replace("x, out,", "x.at(1000), out,"), "points 4,000 behind"),
        (SCALE, PLAN.replace("x, out,", "kw.scratch('x', 8), out,"), "x names an argument"),
        ('#include "/etc/passwd"\n' + SCALE, PLAN, "cannot open source file"),
        ('#include "/proc/self/environ"\n' + SCALE, PLAN, "cannot open source file"),
        ("#include <cuda_device_runtime_api.h>\n__global__ void g();" + SCALE, PLAN, ""),
    ],
)
def test_what_does_not_fit_is_said(kernel: str, plan: str, message: str, pool: BuilderPool) -> None:
    made = build_cuda(candidate(kernel, plan), (vectors(),), HOPPER, pool)
    if message:
        assert message in lines(made)


def test_a_source_without_a_plan_is_a_failure(pool: BuilderPool) -> None:
    assert "no plan" in lines(build_cuda(Candidate("cuda", SCALE), (vectors(),), HOPPER, pool))


def test_a_compile_bomb_is_ended(pool: BuilderPool, monkeypatch: pytest.MonkeyPatch) -> None:
    import kernelwright.contracts.cuda.toolchain.builder as module

    monkeypatch.setattr(module, "SECONDS", 4.0)
    bomb = "template <int N> struct B { enum { v = B<N - 1>::v + B<N - 2>::v * 3 }; };\n"
    deep = "#define D(x) x x x x x x x x\n" + "int a = " + "D(" * 12 + "1+" + ")" * 12 + "1;\n"
    made = build_cuda(candidate(bomb + deep + SCALE), (vectors(),), HOPPER, pool)
    assert isinstance(made, BuildFailure)


@needs_toolkit
def test_warm_compilers_have_the_slow_headers_ready() -> None:
    kernel = (
        "#include <cuda_fp16.h>\n#include <cooperative_groups.h>\n"
        'extern "C" __global__ void scale(const float* x, float* out, int n) '
        "{ out[0] = __half2float(__float2half(x[0])); cooperative_groups::this_grid().sync(); }"
    )
    warm = BuilderPool(HOPPER.architecture, spare=1)
    try:
        until = time.monotonic() + 60
        while not warm._waiting[True][0].ready and time.monotonic() < until:
            time.sleep(0.1)
        made = build_cuda(candidate(kernel), (vectors(),), HOPPER, warm)
        assert built(made) and not warm._waiting[True]
    finally:
        warm.close()


@needs_toolkit
@pytest.mark.parametrize("name", sorted(path.name for path in KERNELS.iterdir() if path.is_dir()))
def test_every_honest_kernel_builds(name: str, pool: BuilderPool) -> None:
    task = resolve("rmsnorm")
    shapes = tuple(signature(task, workload) for workload in task.public_workloads()[:1])
    assert built(build_cuda(read_cuda_candidate(KERNELS / name), shapes, HOPPER, pool))


@needs_toolkit
@pytest.mark.parametrize("name", ["rmsnorm", "rmsnorm:backward", "adamw", "argmax", "cross_entropy", "maxpool2d"])
def test_every_skeleton_builds(name: str, pool: BuilderPool) -> None:
    task = resolve(name)
    told = brief(CUDA, task)
    shapes = tuple(signature(task, workload) for workload in task.public_workloads())
    assert built(build_cuda(Candidate("cuda", told.skeleton), shapes, HOPPER, pool))
    assert "def plan(" in told.signature and "/* plan.py" in told.skeleton


@needs_toolkit
def test_a_skeleton_for_several_dtypes_is_a_template(pool: BuilderPool) -> None:
    def of(dtype: str) -> Signature:
        return Signature((TensorSpec("x", dtype, (4,), (1,), "input"), TensorSpec("out", dtype, (4,), (1,), "output")))

    signatures = (of("float32"), of("bfloat16"), of("float16"))
    skeleton = CUDA.skeleton(signatures, "t")
    assert "template <class T>" in skeleton
    assert len(built(build_cuda(Candidate("cuda", skeleton), signatures, HOPPER, pool))) == 3


def test_architectures_have_their_own_instructions_from_hopper_on() -> None:
    assert [architecture(c) for c in ((8, 0), (9, 0), (12, 0))] == ["sm_80", "sm_90a", "sm_120a"]


def test_an_unreadable_module_is_left_to_the_driver() -> None:
    assert parameter_sizes(b"\x7fELF" + bytes(100)) == {} and resources("") == ()
