"""One thread for every test of a kernel that was proved with one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelwright.export.loading import load_proved
from kernelwright.export.package import Exported, export
from kernelwright.export.standalone import device, driver, fastbuild
from kernelwright.export.standalone.kernel import LoadedKernel
from tests.export import making
from tests.export.playing import STREAM, PlayedDriver


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _python_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a build lies in the cache depends on which tests ran before: those that want one say so."""
    monkeypatch.setenv(fastbuild.SWITCH, "off")


@pytest.fixture(scope="session")
def fast_build() -> Path:
    """The fast path, compiled once for all tests: about 15 seconds of a processor."""
    try:
        return fastbuild.build()
    except fastbuild.FastPathError as error:
        pytest.skip(str(error))


@pytest.fixture
def fast_path(fast_build: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(fastbuild.SWITCH)
    return fast_build


@pytest.fixture(params=["python", pytest.param("fast path", marks=pytest.mark.slow)])
def host_side(request: pytest.FixtureRequest) -> str:
    """Both host sides of a loaded kernel have to behave alike: a module that names this runs with each."""
    if request.param == "fast path":
        request.getfixturevalue("fast_path")
    return str(request.param)


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("exported")
    return export(making.rmsnorm(folder), folder / "package", "rms_kernel")


@pytest.fixture
def kernel(tmp_path: Path) -> LoadedKernel:
    return load_proved(making.rmsnorm(tmp_path))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedDriver]:
    """Tensors on the CPU stand in for those of a GPU."""
    made = PlayedDriver()
    monkeypatch.setattr(driver, "library", lambda: made)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: STREAM, raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(device, "_bytes", lambda size, _: torch.ones(max(1, size), dtype=torch.uint8))
    return made
