"""A process with a GPU sees that GPU's node only, whatever its number."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import kernelwright
from kernelwright.isolation import gpu_access
from kernelwright.isolation.gpu_access import SHARED_NODES, GpuAccess, access_to

HOME = str(Path(kernelwright.__file__).parents[1])
SHARED = tuple(f"/dev/{name}" for name in SHARED_NODES)


def machine(root: Path, nodes: list[str], known: dict[str, tuple[str, int]]) -> Path:
    """A file system with device nodes, and what the driver says of each GPU by its place on the bus."""
    (root / "dev").mkdir(parents=True)
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", *nodes):
        (root / "dev" / name).touch()
    (root / "dev/nvidia-caps").mkdir()
    for bus, (uuid, minor) in known.items():
        folder = root / "proc/driver/nvidia/gpus" / bus
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n"
        )
    return root


def test_the_drivers_number_is_taken_and_not_cudas(tmp_path: Path) -> None:
    known = {"0000:19:00.0": ("GPU-aaaa", 1), "0000:3b:00.0": ("GPU-bbbb", 0)}
    root = machine(tmp_path, ["nvidia0", "nvidia1"], known)
    assert access_to("GPU-aaaa", 0, root) == GpuAccess((*SHARED, "/dev/nvidia1"), "GPU-aaaa")
    assert access_to("gpu-BBBB", 1, root).nodes == (*SHARED, "/dev/nvidia0")


def test_a_container_with_one_node_has_no_other(tmp_path: Path) -> None:
    assert access_to("GPU-aaaa", 0, machine(tmp_path / "a", ["nvidia3"], {})).nodes[-1] == "/dev/nvidia3"
    known = {"0000:19:00.0": ("GPU-cccc", 0)}
    assert access_to("GPU-aaaa", 0, machine(tmp_path / "b", ["nvidia3"], known)).nodes[-1] == "/dev/nvidia3"


def test_without_the_drivers_word_the_index_is_tried(tmp_path: Path) -> None:
    root = machine(tmp_path, ["nvidia0", "nvidia1", "nvidia2"], {})
    assert access_to("GPU-aaaa", 1, root).nodes == (*SHARED, "/dev/nvidia1")


def test_inside_it_is_the_only_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    access = GpuAccess((), "GPU-aaaa")
    assert access.index == 0 and gpu_access.gpu_variables(access)["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa"


def test_folders_that_merely_stand_on_the_path_are_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that was started as a module in `/` has that on its path, and a user's has the user's folder."""
    monkeypatch.setattr(sys, "path", ["/", str(tmp_path), *sys.path])
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    gpu_access.imported_folders.cache_clear()
    shown = gpu_access.cuda_files()
    assert HOME in shown
    assert "/" not in shown and str(tmp_path) not in shown
    assert gpu_access.gpu_variables(GpuAccess((), "x"))["PYTHONPATH"].split(":")[0] == HOME
