"""One thread for every test of a kernel that was proved with one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelwright.export.loading import load_proved
from kernelwright.export.package import Exported, export
from kernelwright.export.standalone.kernel import LoadedKernel
from tests.export import making


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("exported")
    return export(making.rmsnorm(folder), folder / "package", "rms_kernel")


@pytest.fixture
def kernel(tmp_path: Path) -> LoadedKernel:
    return load_proved(making.rmsnorm(tmp_path))
