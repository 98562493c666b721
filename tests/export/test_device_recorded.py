"""Recorded kernels on a driver that is played: what is launched at any sizes is what a recording there would launch.

No GPU is needed, and nothing here says that a kernel ran on one.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
import torch

from kernelwright.contracts import Candidate
from kernelwright.contracts.model import GpuBuild, GpuBuilt, GpuContract, PortableBuild, PortableRequest
from kernelwright.contracts.portable import PortableKernel
from kernelwright.contracts.registry import contract_named
from kernelwright.contracts.symbolic import symbolic_signature
from kernelwright.contracts.target import HOPPER
from kernelwright.export.loading import load
from kernelwright.export.package import export
from kernelwright.export.standalone import guards
from kernelwright.export.standalone.device import DeviceLibrary
from kernelwright.export.standalone.kernel import FallbackWarning
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.resolve import declared
from tests.contracts import recorded_host
from tests.contracts.recorded_host import LISTED, portable, tiled
from tests.export import making
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


KERNELS = Path(__file__).parents[1] / "kernels_triton"
EXTENSION = """
#include <torch/extension.h>
__global__ void kernel(const float* x, float* out, long n, int cols, float inverse) {
  const long at = blockIdx.x * 256L + threadIdx.x;
  if (at < n) out[at] = x[at] * inverse + cols;
}
torch::Tensor forward(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  const long n = x.numel();
  const int cols = x.size(1);
  kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, cols, 1.0f / cols);
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


MODULE = f"""
import torch
from torch.utils.cpp_extension import load_inline

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        source = {EXTENSION.partition("PYBIND11_MODULE")[0]!r}
        self.own = load_inline("own", "torch::Tensor forward(torch::Tensor x);", source, functions=["forward"])

    def forward(self, x):
        return self.own.forward(x)
"""


def real(contract: str) -> Candidate:
    if contract != "triton":
        return Candidate(contract, EXTENSION if contract == "extension" else MODULE)
    return Candidate("triton", (KERNELS / "softmax" / "online.py").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["extension", "triton", "modelnew"])
def test_a_recorded_candidate_launches_at_other_sizes_what_its_toolchain_builds_there(
    name: str, tmp_path: Path, played: PlayedDriver
) -> None:
    contract = contract_named(name)
    assert isinstance(contract, GpuContract)
    missing = [part for part in contract.parts() if part.missing]
    if missing:
        pytest.skip(missing[0].fix)
    task = declared("softmax").on("cuda")
    symbolic = symbolic_signature(task)
    listed = tuple((one.size_map, signature(task, one)) for one in task.public_workloads()[:1])
    made = contract.portable(real(name), PortableRequest("softmax", symbolic, listed, HOPPER))
    assert isinstance(made, PortableBuild) and made.kernel.all_sizes, made
    fresh = [{"rows": 4097, "cols": 1000}, {"rows": 333, "cols": 4096}, {"rows": 8000, "cols": 999}]
    built = contract.toolchain(HOPPER).build(real(name), tuple(symbolic.at(sizes) for sizes in fresh))
    assert isinstance(built, GpuBuild), built
    called = library(made, tmp_path, ("x", "out"))
    for sizes, expected in zip(fresh, built.built, strict=True):
        played.launches.clear()
        x, out = torch.zeros(16), torch.zeros(sizes["rows"], sizes["cols"])  # memsets are carried out
        called.call(tuple(sizes.values()), (x,), (out,), sizes)
        assert_launched(played, expected.program, {"x": x.data_ptr(), "out": out.data_ptr()})
        wanted = {hashlib.sha256(module).hexdigest() for module in expected.modules}
        assert wanted <= set(made.binaries)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_a_recorded_kernel_is_exported_and_answers_by_the_reference_where_there_is_no_gpu(
    whole: bool, tmp_path: Path
) -> None:
    """Where the declared domain was not checked, nothing but the listed sizes is recorded."""
    if any(part.missing for part in contract_named("extension").parts()):
        pytest.skip("nvcc is missing")
    candidate = real("extension")
    changes = {} if whole else {"domain": None}
    proved = making.proved("softmax", candidate, **changes)
    made = export([proved], tmp_path / "out", "soft", architectures=["sm_90a"])
    (variant,) = made.manifest.forward
    assert (variant.kind, variant.contract) == ("cuda", "extension")
    assert all(region.exactly for region in variant.regions) == (not whole)
    kernel = PortableKernel.read((made.folder / "soft" / variant.file).read_bytes())
    assert kernel.all_sizes == whole
    loaded = load(made.folder)
    with pytest.warns(FallbackWarning, match=guards.DEVICE):
        torch.testing.assert_close(loaded(torch.ones(2, 4)), torch.softmax(torch.ones(2, 4), -1))
    assert loaded.counts["kernel"] == 0
