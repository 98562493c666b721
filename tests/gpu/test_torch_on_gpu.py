"""A launcher with torch on a GPU: steps between launches are right, timed by clocks that agree, and inspected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest

from kernelwright.contracts.cuda.source import read_cuda_candidate
from kernelwright.contracts.cuda.toolchain.build import build_cuda
from kernelwright.contracts.layout import GUARD, size_of
from kernelwright.contracts.model import GpuBuild, GpuBuilt
from kernelwright.contracts.program import Block, LibraryStep, Pointer, ProgramStep, TensorView
from kernelwright.errors import CannotDecide
from kernelwright.judge.gpu.client import LauncherProcess
from kernelwright.judge.gpu.clocks import disagreement
from kernelwright.judge.gpu.health import torch_launcher_isolation
from kernelwright.judge.gpu.inspectors import Inspectors
from kernelwright.judge.gpu.sanitize import Tool, sanitizer
from kernelwright.judge.timing.statistics import median
from kernelwright.runtime.library_steps import without_own_kernels
from tests.gpu.harness import KERNELS, Bench, Oracle, signature, with_descriptors

pytestmark = pytest.mark.gpu
SIZE = (1024, 4096)


def behind_torch(built: GpuBuilt, *operators: str) -> GpuBuilt:
    """The same kernel on what torch makes of its input, one operator after the other, in scratch of its own."""
    program = built.program
    (x,) = (number for number, block in enumerate(program.blocks) if block.name == "x")
    blocks, steps, last = list(program.blocks), list(program.steps), x
    made = []
    for operator in operators:
        extent = program.blocks[x].extent
        whole, offset = size_of(extent)
        base = max(block.base + block.bytes for block in blocks) + GUARD
        blocks.append(Block(operator, base, whole, offset, extent, writable=True, fill="poison"))
        views = [TensorView(block, 0, "float32", (extent // 4,), (1,)) for block in (last, len(blocks) - 1)]
        name = operator.partition(".")[0]
        call = f'{{"kind": "call", "op": "aten.{operator}", "args": [{{"node": 0}}], "kwargs": {{}}}}'
        made.append(LibraryStep(name, call, (views[0],), (), (views[1],)))
        last = len(blocks) - 1

    def pointed(pointer: Pointer) -> Pointer:
        return replace(pointer, block=last) if pointer.block == x else pointer

    def given(step: ProgramStep) -> ProgramStep:
        arguments = [replace(one, pointers=tuple(map(pointed, one.pointers))) for one in step.arguments]
        return replace(step, arguments=tuple(arguments))

    launches = [given(step) if isinstance(step, ProgramStep) else step for step in steps]
    return replace(built, program=replace(program, blocks=tuple(blocks), steps=(*made, *launches)))


@pytest.fixture
def kernel(bench: Bench) -> GpuBuilt:
    source = read_cuda_candidate(KERNELS / "rmsnorm_vector")
    made = build_cuda(source, (signature(*SIZE),), bench.target, bench.pool)
    assert isinstance(made, GpuBuild), made
    return made.built[0]


@pytest.fixture
def launcher(bench: Bench) -> Iterator[LauncherProcess]:
    with LauncherProcess(bench.helpers, level=torch_launcher_isolation(bench.helpers).level, torch=True) as made:
        yield made


@pytest.fixture
def oracle(bench: Bench) -> Oracle:
    return bench.oracle(SIZE)


def test_steps_of_torch_are_right_and_inside_the_timed_window(
    bench: Bench, launcher: LauncherProcess, kernel: GpuBuilt, oracle: Oracle
) -> None:
    times = {}
    for operators in (("neg.default", "neg.default"), ("neg.default",) * 8):
        built = behind_torch(kernel, *operators)
        with_descriptors(oracle, lambda fds, built=built: launcher.open(built.program, built.modules, fds))  # type: ignore[misc]
        timings = []
        for _ in range(20):
            oracle.load()
            timings.append(launcher.trial(oracle.word, 5.0))
            assert oracle.complaint() is None
        assert disagreement(timings, bench.empty) is None
        times[len(operators)] = median([timing.device for timing in timings])
    assert times[8] > 1.5 * times[2]


def test_a_step_that_waits_is_told(launcher: LauncherProcess, kernel: GpuBuilt, oracle: Oracle) -> None:
    """The gate gives up after ten seconds."""
    behind = behind_torch(kernel, "neg.default")
    step, *others = behind.program.steps
    assert isinstance(step, LibraryStep)
    counts = replace(step.results[0], sizes=(100,))  # looks for the ends of its range on the host
    waiting = replace(step, operator="histc", call=step.call.replace("neg.", "histc."), results=(counts,))
    built = replace(behind, program=replace(behind.program, steps=(waiting, *others)))
    with pytest.raises(CannotDecide, match="waits for the GPU"):
        with_descriptors(oracle, lambda fds: launcher.open(built.program, built.modules, fds))
        oracle.load()
        launcher.trial(oracle.word, 30.0)


def test_without_the_kernel_torch_is_not_right(launcher: LauncherProcess, kernel: GpuBuilt, oracle: Oracle) -> None:
    built = behind_torch(kernel, "neg.default", "neg.default")
    programs = list(without_own_kernels(built.program, [True]))
    assert len(programs) == 3
    for program in programs:
        with_descriptors(oracle, lambda fds, program=program: launcher.open(program, built.modules, fds))  # type: ignore[misc]
        oracle.load()
        launcher.run(oracle.word, 5.0)
        assert oracle.complaint() is not None


def test_a_tool_sees_the_kernel_alone(
    bench: Bench, launcher: LauncherProcess, kernel: GpuBuilt, oracle: Oracle
) -> None:
    if sanitizer() is None:
        pytest.skip("compute-sanitizer is not installed")
    built = behind_torch(kernel, "neg.default", "neg.default")
    inspectors = Inspectors(bench.helpers, 0, 0, nullcontext)
    oracle.load()

    def inspected(descriptors: list[int]) -> None:
        with launcher.without_torch(built.program, built.modules, descriptors, 20.0) as (program, given):
            found = inspectors.inspect(tuple(Tool), program, built.modules, given, oracle.word, 120.0, "kernel.cu")
        assert [(one.findings, one.fault, one.failed) for one in found] == [((), None, "")] * len(Tool)

    with_descriptors(oracle, inspected)
    inspectors.close()
    assert oracle.complaint() is None
