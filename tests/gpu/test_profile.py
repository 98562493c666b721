"""Counters of a GPU in a verdict: they say what is known of a kernel, and no verdict depends on them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.contracts.registry import read_source
from kernelwright.contracts.target import architecture
from kernelwright.devices import nvidia
from kernelwright.devices.names import Device
from kernelwright.judge.gpu import profiler
from kernelwright.judge.gpu.health import helper_kernels
from kernelwright.judge.gpu.profiler import why_not
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome

if TYPE_CHECKING:
    from tests.gpu.harness import Bench

HERE = Path(__file__).parent
KERNELS = HERE.parent / "kernels_cuda"
LARGE = (16384, 4096)  # so large that what the L2 keeps back of the outputs hardly counts


@pytest.fixture(scope="module", autouse=True)
def _counters() -> Iterator[None]:
    missing = why_not(helper_kernels(architecture(nvidia.probe().capability)))
    if missing:
        pytest.skip(missing)
    yield


@pytest.mark.gpu
def test_an_honest_kernel_moves_what_it_must(bench: Bench) -> None:
    told, _ = bench.profile(KERNELS / "rmsnorm_vector", LARGE)
    assert not told.missing
    (launch,) = told.launches
    compulsory = 4 * (2 * LARGE[0] * LARGE[1] + LARGE[1])
    assert launch.dram_read_bytes is not None and launch.dram_written_bytes is not None
    assert compulsory / 2 < launch.dram_read_bytes + launch.dram_written_bytes < compulsory * 2
    assert launch.seconds is not None and 50e-6 < launch.seconds < 10e-3
    absent = {name for name, value in launch.model_dump().items() if value is None}
    assert absent <= {"bank_conflicts"}, f"this version of ncu has other names for {absent}"
    for share in (launch.of_dram, launch.l2_hits, launch.of_sm, launch.occupancy, launch.issuing):
        assert share is not None and 0 < share <= 1.05
    assert launch.of_dram is not None and launch.of_dram > 0.3
    assert launch.registers is not None and 8 <= launch.registers <= 255
    assert launch.stalls and 0 < sum(stall.share for stall in launch.stalls) <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["rmsnorm_split", "rmsnorm_cooperative", "rmsnorm_cluster", "rmsnorm_tma"])
def test_every_launch_is_told_and_nothing_of_ours(name: str, bench: Bench) -> None:
    told, built = bench.profile(KERNELS / name, (1024, 4096))
    assert not told.missing
    assert [launch.kernel for launch in told.launches] == [kernel.name for kernel in built.kernels]
    assert all(launch.seconds for launch in told.launches)


def launchers() -> set[str]:
    """The processes of launchers that there are, by their numbers."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"kernelwright.judge.launcher.launcher" in (entry / "cmdline").read_bytes():
                found.add(entry.name)
    return found


@pytest.mark.gpu
def test_a_call_that_does_not_end_leaves_nobody_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.judge.gpu.client import Faulted

    monkeypatch.setattr(profiler, "SECONDS", 5.0)
    before = launchers()
    with pytest.raises(Faulted, match="timed_out"):
        bench.profile(HERE / "exploits" / "endless.cu", (64, 128))
    until = time.monotonic() + 10
    while launchers() - before and time.monotonic() < until:
        time.sleep(0.2)
    assert not launchers() - before


@pytest.mark.gpu
def test_a_verdict_has_it_for_the_first_public_workload() -> None:
    from kernelwright.judge.controller import Judge

    settings = Settings(
        baselines=("eager",), effort=Sampling(6, 6), device=Device("cuda"), safety=False, public_only=True, profile=True
    )
    candidate = read_source(KERNELS / "rmsnorm_vector")
    with Judge(settings) as judge:
        first, second = (judge.judge(str(HERE / "rmsnorm_gpu.py"), candidate) for _ in range(2))
    assert first.verdict is second.verdict is Outcome.accepted
    told, *others = [result.profile for result in first.workloads]
    assert told is not None and told.launches and others == [None]
    assert second.workloads[0].profile == told
    assert second.stage_seconds["profile"] < first.stage_seconds["profile"]
    print(f"profile took {first.stage_seconds['profile']:.1f} s: {told.model_dump_json(indent=1)}")
