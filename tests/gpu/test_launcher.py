"""The launcher on a GPU: honest kernels of every kind are right, both clocks agree, and a broken device is noticed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from kernelwright.devices.nvidia import probe, state
from kernelwright.isolation.levels import Level
from kernelwright.isolation.roles import Role
from kernelwright.isolation.start import level_of
from kernelwright.isolation.warden import Ending
from kernelwright.judge.gpu.clocks import disagreement, null_call
from kernelwright.judge.gpu.health import device_is_well
from kernelwright.judge.gpu.runner import GpuRunner
from kernelwright.judge.gpu.sanitize import Tool, sanitizer
from kernelwright.judge.timing.statistics import band, median
from tests.gpu.harness import HERE, KERNELS, Bench, signature, with_descriptors

HONEST = sorted(path.name for path in KERNELS.iterdir() if path.is_dir())


@pytest.mark.gpu
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_is_accepted(name: str, bench: Bench) -> None:
    outcome = bench.judge(KERNELS / name)
    assert outcome.reason == "accepted", outcome.detail


@pytest.mark.gpu
def test_both_clocks_read_the_same_on_an_empty_call(bench: Bench) -> None:
    with bench.launcher() as launcher:
        assert launcher.well()
        timings = [launcher.trial(7, 5.0, empty=True) for _ in range(40)]
    again, empty = null_call(timings[5:]), bench.empty
    assert disagreement(timings[5:], empty) is None
    assert abs(again.device - empty.device) < 0.5e-6
    assert 1e-6 < again.device < again.outside < 50e-6
    assert again.outside < again.answer < 5e-3


@pytest.mark.gpu
def test_one_launcher_serves_several_workloads(bench: Bench) -> None:
    from kernelwright.contracts.cuda.source import read_cuda_candidate
    from kernelwright.contracts.cuda.toolchain.build import build_cuda
    from kernelwright.contracts.model import GpuBuild

    sizes = ((64, 128), (200, 5000), (64, 128))
    signatures = tuple(signature(*size) for size in sizes)
    made = build_cuda(read_cuda_candidate(KERNELS / "rmsnorm_split"), signatures, bench.target, bench.pool)
    assert isinstance(made, GpuBuild)
    with bench.launcher() as launcher:
        for size, built in zip(sizes, made.built, strict=True):
            oracle = bench.oracle(size)
            uses = with_descriptors(oracle, partial(launcher.open, built.program, built.modules))
            assert [use.registers > 0 and use.occupancy > 0 for use in uses] == [True, True]
            oracle.load()
            launcher.trial(oracle.word, 5.0)
            assert oracle.complaint() is None


@pytest.mark.gpu
def test_memsets_keep_their_order_and_launches_their_module(bench: Bench) -> None:
    """What `cuda` plans do not say and recordings do."""
    from kernelwright.contracts.cuda.source import read_cuda_candidate
    from kernelwright.contracts.cuda.toolchain.build import build_cuda
    from kernelwright.contracts.model import GpuBuild
    from kernelwright.contracts.program import Memset

    made = build_cuda(read_cuda_candidate(KERNELS / "rmsnorm_vector"), (signature(64, 128),), bench.target, bench.pool)
    assert isinstance(made, GpuBuild)
    (built,) = made.built
    (launch,) = built.program.launches
    out = next(number for number, block in enumerate(built.program.blocks) if block.name == "out")
    spoil = Memset(out, 4, 8, 0xFF)
    second = replace(launch, module=1)
    complaints = []
    for steps in ((spoil, second), (second, spoil)):
        program = replace(built.program, steps=steps, modules=2)
        oracle = bench.oracle((64, 128))
        with bench.launcher() as launcher:
            with_descriptors(oracle, partial(launcher.open, program, built.modules * 2))
            oracle.load()
            launcher.trial(oracle.word, 5.0)
            complaints.append(oracle.complaint())
    assert complaints[0] is None and complaints[1] is not None


@pytest.mark.gpu
def test_a_subject_answers_as_a_runner_does(bench: Bench) -> None:
    from kernelwright.contracts.cuda.source import read_cuda_candidate
    from kernelwright.contracts.cuda.toolchain.build import build_cuda
    from kernelwright.contracts.model import GpuBuild

    oracle = bench.oracle((64, 128))
    for path, endings in (
        (KERNELS / "rmsnorm_vector", (Ending.ok, Ending.ok)),
        (HERE / "exploits/illegal_null.cu", (Ending.ok, Ending.killed)),
        (HERE / "exploits/endless.cu", (Ending.ok, Ending.timeout)),
        (HERE / "exploits/launch_too_much_shared.cu", (Ending.killed,)),
    ):
        made = build_cuda(read_cuda_candidate(path), (signature(64, 128),), bench.target, bench.pool)
        assert isinstance(made, GpuBuild)
        oracle.load()
        subject = with_descriptors(oracle, partial(GpuRunner, bench.launcher(), made.built[0]))
        with subject:
            replies = [subject.ready()]
            while subject.alive and len(replies) < 2:
                replies.append(subject.trial("r", 1.0))
        assert tuple(reply.ending for reply in replies) == endings
        if replies[-1].ending is Ending.ok:
            assert replies[-1].value > 1000 and subject.uses and subject.disagreement(bench.empty) is None
        else:
            assert replies[-1].describe()


@pytest.mark.gpu
def test_times_repeat_in_a_fresh_process(bench: Bench) -> None:
    medians = []
    for _ in range(3):
        outcome = bench.judge(KERNELS / "rmsnorm_vector", [(1024, 4096)], trials=30)
        medians.append(median([timing.device for timing in outcome.timings[1024, 4096]]))
    middle = median(medians)
    allowed = band("cuda", middle)
    assert all(allowed.low <= one / middle <= allowed.high for one in medians), medians


@pytest.mark.gpu
@pytest.mark.skipif(level_of(Role.launcher) is Level.none, reason="this machine offers no namespaces")
def test_cuda_works_inside_the_sandbox(bench: Bench) -> None:
    assert bench.isolation.level is Level.full, bench.isolation.missing


@pytest.mark.gpu
def test_the_device_is_well_and_described(bench: Bench) -> None:
    assert device_is_well(bench.helpers)
    gpu = probe()
    assert gpu.uuid.startswith("GPU-") and gpu.capability >= (7, 0) and gpu.theoretical_bandwidth > 1e11
    assert state(gpu).sm_mhz > 0


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(sanitizer() is None, reason="compute-sanitizer is not installed")
@pytest.mark.parametrize(
    ("path", "tool", "words"),
    [
        ("faulty/race.cu", Tool.racecheck, "Race"),
        ("faulty/uninitialised.cu", Tool.initcheck, "Uninitialized"),
        ("exploits/past_end_one.cu", Tool.memcheck, "Invalid __global__ write"),
    ],
)
def test_the_sanitizers_name_the_line(path: str, tool: Tool, words: str, bench: Bench) -> None:
    found = {inspection.tool: inspection for inspection in bench.sanitize(HERE / path)}
    assert not any(inspection.failed for inspection in found.values())
    finding = found[tool].findings[0]
    assert words in finding.what and finding.line is not None and finding.kernel.startswith("run")


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(sanitizer() is None, reason="compute-sanitizer is not installed")
@pytest.mark.parametrize("name", ["rmsnorm_vector", "rmsnorm_split"])
def test_the_sanitizers_find_nothing_in_an_honest_kernel(name: str, bench: Bench) -> None:
    for inspection in bench.sanitize(KERNELS / name):
        assert (inspection.findings, inspection.fault, inspection.failed) == ((), None, "")
