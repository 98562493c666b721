"""Recorded kernels on a driver that is played: what is launched at any sizes is what a recording there would launch.

No GPU is needed, and nothing here says that a kernel ran on one.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
import torch

from kernelwright.contracts.model import GpuBuilt, PortableBuild
from kernelwright.contracts.portable import PortableKernel
from kernelwright.export.standalone.device import DeviceLibrary
from tests.contracts import recorded_host
from tests.contracts.recorded_host import LISTED, portable, tiled
from tests.export.playing import PlayedDriver, assert_launched


def library(made: PortableBuild, folder: Path, names: tuple[str, ...]) -> DeviceLibrary:
    path = folder / "kernel.formula.json"
    path.write_text(made.kernel.text())
    for name, content in made.binaries.items():
        (folder / f"{name}.cubin").write_bytes(content)
    return DeviceLibrary(path, hashlib.sha256(path.read_bytes()).hexdigest(), "sm_90a", names, PortableKernel.read)


def test_a_formula_launches_what_a_recording_would(
    tmp_path: Path, played: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    made, toolchain = portable(tiled)
    called = library(made, tmp_path, ("x", "out"))
    chance = random.Random(3)
    drawn = [{"rows": chance.randint(1, 3000), "cols": chance.randint(16, 4000)} for _ in range(12)]
    x, out = torch.zeros(16), torch.zeros(16)  # only their addresses are looked at
    for sizes in (*LISTED, *drawn):
        assert (sizes["rows"], sizes["cols"]) not in toolchain.asked or sizes in LISTED
        assert called.holds(sizes)
        played.launches.clear()
        played.steps.clear()
        called.call(tuple(sizes.values()), (x,), (out,), sizes)
        expected: GpuBuilt = recorded_host.at_sizes(tiled, sizes)
        assert_launched(played, expected.program, {"x": x.data_ptr(), "out": out.data_ptr()})
        assert [one if one == "launch" else one[0] for one in played.steps] == ["set", "launch", "launch"]
        assert played.steps[0][2:] == (4 * sizes["rows"] * -(-sizes["cols"] // 512), 0)
