"""The sources that are judged on a GPU build for the sizes they are judged on, as far as NVRTC can tell without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.cuda.toolchain.build import build_cuda
from kernelwright.contracts.cuda.toolchain.builder import BuilderPool
from kernelwright.contracts.cuda.toolkit import has_toolkit
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.registry import read_source
from kernelwright.contracts.target import HOPPER
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.hidden import hidden_workloads
from kernelwright.tasks.resolve import resolve
from tests.gpu.harness import HERE
from tests.gpu.test_exploits import EXPLOITS, REJECTED
from tests.gpu.test_judge import SCALED, SCALED_TASK, STEP, STEP_TASK, TASK

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available())
needs_toolkit = pytest.mark.skipif(not has_toolkit(), reason="the CUDA headers are not installed")
HOSTILE = sorted(EXPLOITS.glob("*.cu"))


@pytest.fixture(scope="module")
def pool() -> Iterator[BuilderPool]:
    made = BuilderPool(HOPPER.architecture)
    yield made
    made.close()


def failure(candidate: Candidate, reference: str, pool: BuilderPool) -> BuildFailure | None:
    task = resolve(reference, "cuda")
    workloads = (*task.public_workloads(), *hidden_workloads(task, b"k" * 32)[:3])
    made = build_cuda(candidate, tuple(signature(task, one) for one in workloads), HOPPER, pool)
    return made if isinstance(made, BuildFailure) else None


@pytest.mark.slow
def test_exploits_build_unless_that_is_where_they_fail(pool: BuilderPool) -> None:
    failed = {path.stem for path in HOSTILE if failure(read_source(path), TASK, pool)}
    assert failed == {name for name, reasons in REJECTED.items() if reasons == {"does_not_build"}}


def test_faulty_kernels_build(pool: BuilderPool) -> None:
    for path in sorted((HERE / "faulty").glob("*.cu")):
        assert failure(read_source(path), TASK, pool) is None


def test_kernels_in_place_build(pool: BuilderPool, tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text(STEP_TASK)
    assert failure(Candidate("cuda", STEP), str(tmp_path / "step.py"), pool) is None


@needs_toolkit
def test_kernels_of_several_dtypes_build(pool: BuilderPool, tmp_path: Path) -> None:
    (tmp_path / "scaled.py").write_text(SCALED_TASK)
    assert failure(Candidate("cuda", SCALED), str(tmp_path / "scaled.py"), pool) is None
