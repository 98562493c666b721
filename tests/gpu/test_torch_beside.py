"""A launcher with torch beside it, as it is, on a driver that is played: order, memory, and what it refuses.

Torch's operators run on the CPU here and are over when they return. Nothing here says what a GPU does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, cast

import pytest
import torch

from kernelwright.contracts import Candidate
from kernelwright.contracts.model import GpuBuilt
from kernelwright.contracts.program import Program
from kernelwright.errors import CannotDecide
from kernelwright.isolation import gpu_access
from kernelwright.isolation.levels import Level, capabilities
from kernelwright.judge.gpu import inspectors
from kernelwright.judge.gpu.client import Faulted, FaultKind, LauncherProcess
from kernelwright.judge.gpu.inspectors import Inspectors
from kernelwright.judge.gpu.job import GpuJob
from kernelwright.judge.gpu.sanitize import Tool
from kernelwright.judge.gpu.workshop import GpuWorkshop
from kernelwright.judge.oracle_client import OpenTask, WorkloadSpec
from kernelwright.judge.verdict import Reason
from kernelwright.tasks.model import Workload
from tests.gpu import driver
from tests.gpu.library import COUNT, FIRST, LAYOUT, OUT, SECOND, X, built, launch, program, torchs
from tests.gpu.played import GPU
from tests.gpu.test_played_driver import SIGNATURE, TOOL, WORD, Arena, asked

pytest.importorskip("cuda.bindings.driver", reason="the CUDA bindings are missing: pip install -e '.[cuda]'")
pytestmark = pytest.mark.skipif(
    torch.version.cuda is not None, reason="this torch has CUDA, and the memory of a played driver is the host's"
)
MIXED = (torchs("neg", X, FIRST), launch("twice", FIRST, OUT))


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver.build(tmp_path_factory.mktemp("passing"), "GATE_PASSES")


@pytest.fixture
def arena(passing: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(passing))
    monkeypatch.setattr(gpu_access.nvidia, "probe", lambda index: GPU)
    files = [os.memfd_create(place.name) for place in LAYOUT.tensors]
    for file, place in zip(files, LAYOUT.tensors, strict=True):
        os.ftruncate(file, place.bytes)
    made = Arena(files)
    yield made
    for file in files:
        os.close(file)


def started() -> LauncherProcess:
    return LauncherProcess(b"helpers", level=Level.none, torch=True)


def times(factor: float) -> tuple[float, ...]:
    return tuple(factor * i for i in range(COUNT))


def test_torchs_steps_are_carried_out_between_the_launches_of_a_timed_call(arena: Arena) -> None:
    steps = (torchs("neg", X, FIRST), launch("twice", FIRST, SECOND), torchs("abs", SECOND, OUT))
    with started() as launcher:
        assert launcher.well()
        launcher.open(program(*steps), [b"cubin"], arena.files)
        timings = [launcher.trial(WORD, 5.0) for _ in range(2)]
        assert arena.results == times(2.0)
        launcher.open(program(*MIXED), [b"cubin"], arena.files)
        launcher.run(WORD, 5.0)
    assert arena.results == times(-2.0) and all(one.device > 0 for one in timings)


@pytest.mark.skipif(capabilities().level is not Level.full, reason="this machine does not reach full")
def test_torch_starts_and_computes_where_a_launcher_is_confined(arena: Arena, passing: Path) -> None:
    passing.chmod(0o755)
    with LauncherProcess(b"helpers", level=Level.full, torch=True) as launcher:
        launcher.open(program(*MIXED), [b"cubin"], arena.files)
        launcher.trial(WORD, 5.0)
    assert arena.results == times(-2.0)


def test_what_a_call_needs_of_torch_is_there_before_it_and_the_arena_is_not_touched(arena: Arena) -> None:
    before = arena.out[:]
    with started() as launcher:
        launcher.open(program(launch("twice", X, FIRST), torchs("neg", FIRST, OUT)), [b"cubin"], arena.files)
        assert arena.out[:] == before
        launcher.trial(WORD, 5.0)
        said = asked(launcher)
    assert arena.results == times(-2.0)
    opened = said[: said.index("cuMemFree 4000")]
    assert opened.count("cuMemAlloc 4000") == 2 and opened.count("memset of 4000 bytes to 0") == 2
    assert "load twice" in said and not any("cuMemAlloc" in line for line in said[said.index("cuMemFree 4000") :])


def test_a_step_that_waits_for_the_gpu_is_told_and_is_no_fault_of_the_candidate(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver.build(tmp_path, "GATE_GIVES_UP")))
    with started() as launcher:
        launcher.open(program(*MIXED), [b"cubin"], arena.files)
        with pytest.raises(CannotDecide, match="cannot be timed: torch's neg waits for the GPU"):
            launcher.trial(WORD, 5.0)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (torchs("from_file", X, FIRST), "from_file is not on the list of operators"),
        (torchs("neg", X, FIRST, overload="nowhere"), "aten.neg.nowhere is not in PyTorch"),
        (torchs("mm", X, FIRST, {"node": 0}), "was not carried out, though it was recorded"),
    ],
)
def test_what_torch_does_not_do_cannot_be_timed(arena: Arena, step: Any, said: str) -> None:
    with started() as launcher, pytest.raises(CannotDecide, match=said):
        launcher.open(program(step, launch("twice", FIRST, OUT)), [b"cubin"], arena.files)


def test_a_launcher_without_torch_refuses_its_steps(arena: Arena) -> None:
    with LauncherProcess(b"helpers", level=Level.none) as launcher, pytest.raises(Faulted) as fault:
        launcher.open(program(*MIXED), [b"cubin"], arena.files)
    assert fault.value.kind is FaultKind.bad_arguments and "leaves neg to torch" in fault.value.message


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inspectors]:
    path = tmp_path / "sanitizer"
    path.write_text(TOOL)
    path.chmod(0o755)
    monkeypatch.setattr(inspectors, "sanitizer", lambda: str(path))
    made = Inspectors(b"helpers", 0, 0, nullcontext, lambda: Level.none)
    yield made
    made.close()


def test_a_tool_watches_the_kernels_alone_on_results_that_torch_gave_before(arena: Arena, tools: Inspectors) -> None:
    of = built(torchs("neg", X, FIRST), launch("twice", FIRST, SECOND), torchs("abs", SECOND, OUT))
    with started() as launcher:
        before = arena.out[:]
        with launcher.without_torch(of.program, of.modules, arena.files, 5.0) as (left, given):
            assert arena.out[:] == before and left.library == ()
            (found,) = tools.inspect((Tool.memcheck,), left, of.modules, given, WORD, 10.0, "kernel.cu")
    assert (found.findings, found.fault, found.failed) == ((), None, "")
    assert arena.results == times(2.0)


# --- torch alone -----------------------------------------------------------------------------------------------------


class Values(Protocol):
    """What a job asks of an oracle."""

    draws: int

    def load(self) -> str: ...

    def restore(self) -> None: ...

    def check(self) -> dict[str, str]: ...


class PlayedOracle:
    """The result is twice the absolute value. `draws` counts how often values are new."""

    def __init__(self, arena: Arena) -> None:
        self._arena, self.draws = arena, 0

    def load(self) -> str:
        self.draws += 1
        self.restore()
        return "ordinary"

    def restore(self) -> None:
        self._arena.out[:] = b"\xff" * len(self._arena.out)

    def check(self) -> dict[str, str]:
        return {} if self._arena.results == times(2.0) else {"result": "out"}


class PlayedShop:
    """As much of a workshop as a job asks for."""

    def __init__(self, oracle: Values) -> None:
        self.oracle, self.recovered = oracle, 0

    def working(self) -> Any:
        return nullcontext()

    def isolation(self, *, library: bool) -> None:
        assert library

    def launcher(self, *, torch: bool) -> LauncherProcess:
        assert torch
        return started()

    def recover(self) -> None:
        self.recovered += 1


TORCHS = (torchs("abs", X, FIRST), torchs("add", FIRST, SECOND, {"node": 0}, overload="Tensor"))
SPEC = WorkloadSpec(Workload((), "float32"), SIGNATURE)


def alone(arena: Arena, of: GpuBuilt) -> tuple[Reason | None, PlayedShop]:
    return looked_at(PlayedShop(PlayedOracle(arena)), of, arena.files)


def looked_at(shop: PlayedShop, of: GpuBuilt, files: list[int]) -> tuple[Reason | None, PlayedShop]:
    job = GpuJob(cast(GpuWorkshop, shop), Candidate("modelnew", ""), cast(OpenTask, SimpleNamespace()))
    job._built[SPEC], job._with_torch = of, True
    job._new_launcher()
    try:
        rejection = job.library_alone(SPEC, files, 5.0)
    finally:
        job.close()
    return (rejection.reason if rejection else None), shop


@pytest.mark.parametrize(
    "steps",
    [
        (torchs("abs", X, FIRST), launch("twice", FIRST, OUT)),
        (launch("twice", X, FIRST), torchs("abs", FIRST, OUT)),
    ],
)
def test_a_kernel_on_which_the_result_depends_is_the_candidates(arena: Arena, steps: Any) -> None:
    reason, shop = alone(arena, built(*steps))
    assert reason is None and shop.oracle.draws == 1


@pytest.mark.parametrize(
    "steps",
    [
        (*TORCHS[:1], torchs("add", FIRST, OUT, {"node": 0}, overload="Tensor"), launch("untouched", FIRST, OUT)),
        (*TORCHS, launch("copied", SECOND, OUT)),
        (*TORCHS, launch("copied", SECOND, OUT), torchs("neg", SECOND, SECOND)),
        (launch("untouched", X, FIRST), *TORCHS, launch("copied", SECOND, OUT)),
    ],
)
def test_torch_behind_a_kernel_that_touches_or_copies_its_result_is_torch_alone(arena: Arena, steps: Any) -> None:
    reason, shop = alone(arena, built(*steps))
    assert reason is Reason.library_alone and shop.oracle.draws == 3


def test_what_ends_without_the_candidates_kernels_is_not_torchs_and_another_launcher_goes_on(arena: Arena) -> None:
    faulty = launch("missing", X, FIRST)
    reason, shop = alone(arena, built(faulty, torchs("abs", FIRST, OUT), ours=("missing",)))
    assert reason is None and shop.recovered == 2


def test_a_program_without_steps_of_torch_is_as_it_was(arena: Arena) -> None:
    of = built(launch("twice", X, OUT))
    with started() as launcher, launcher.without_torch(of.program, of.modules, arena.files, 5.0) as (left, given):
        assert left == of.program and given == arena.files
    assert isinstance(left, Program)
