"""The kernels of benchmarks/gpu/hopper are taken by the GPU's compiler, and their plans by the resolver."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.gpu.hopper_under_tools import KERNELS, SLOW, compiled, task

from kernelwright.contracts import nvrtc
from kernelwright.tasks.resolve import resolve

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available())


@pytest.mark.slow
def test_every_kernel_is_built_for_its_task_and_spills_nothing(tmp_path: Path) -> None:
    rows = compiled((*KERNELS, SLOW), tmp_path)
    assert len(KERNELS) == 10 and [row["kernel"] for row in rows] == [*KERNELS, SLOW]
    assert not any(sum(row["spills"]) for row in rows)


def test_their_tasks_open() -> None:
    assert {resolve(task(name), "cuda").name for name in KERNELS} == {"rows", "totals", "product"}
