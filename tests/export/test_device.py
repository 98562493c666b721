"""Kernels for a GPU, launched on a driver that is played: what is launched is what the judge launches.

No GPU is needed, and nothing here says that a kernel ran on one.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.model import BuildFailure, GpuContract, PortableBuild, PortableRequest
from kernelwright.contracts.portable import PortableKernel
from kernelwright.contracts.program import Program
from kernelwright.contracts.registry import contract_named
from kernelwright.contracts.symbolic import symbolic_signature
from kernelwright.contracts.target import HOPPER
from kernelwright.devices.compiler import compiler
from kernelwright.errors import KernelwrightError
from kernelwright.export.package import export
from kernelwright.export.standalone import driver, guards
from kernelwright.export.standalone.device import DeviceLibrary
from kernelwright.export.standalone.host import LibraryError
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Workload
from kernelwright.tasks.resolve import declared
from tests.export import making
from tests.export.playing import PlayedDriver, assert_launched

KERNELS = Path(__file__).parents[1] / "kernels_cuda"
NAMES = ("rmsnorm_vector", "rmsnorm_split", "rmsnorm_cluster", "rmsnorm_tma", "rmsnorm_workspace")

needs_nvrtc = pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is missing")


def built(name: str) -> tuple[Candidate, PortableBuild, Workload]:
    contract = contract_named("cuda")
    candidate = contract.read(KERNELS / name)
    task = declared("rmsnorm").on("cuda")
    workload = task.public_workloads()[0]
    listed = tuple((one.size_map, signature(task, one)) for one in task.public_workloads())
    made = contract.portable(candidate, PortableRequest("rmsnorm", symbolic_signature(task), listed, HOPPER))
    assert isinstance(made, PortableBuild), made
    return candidate, made, workload


def judged(candidate: Candidate, workload: Workload) -> Program:
    """What the judge's launcher would carry out."""
    contract = contract_named("cuda")
    assert isinstance(contract, GpuContract)
    toolchain = contract.toolchain(HOPPER)
    try:
        made = toolchain.build(candidate, (signature(declared("rmsnorm").on("cuda"), workload),))
    finally:
        toolchain.close()
    assert not isinstance(made, BuildFailure), made
    return made.built[0].program


def library(made: PortableBuild, folder: Path) -> DeviceLibrary:
    path = folder / "kernel.formula.json"
    path.write_text(made.kernel.text())
    for name, content in made.binaries.items():
        (folder / f"{name}.cubin").write_bytes(content)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return DeviceLibrary(path, sha256, "sm_90a", ("x", "weight", "eps", "out"), PortableKernel.read)


@needs_nvrtc
@pytest.mark.parametrize("name", NAMES)
def test_what_is_launched_is_what_the_judge_launches(name: str, tmp_path: Path, played: PlayedDriver) -> None:
    candidate, made, workload = built(name)
    program = judged(candidate, workload)
    called = library(made, tmp_path)
    x, weight, out = torch.zeros(16), torch.zeros(16), torch.zeros(16)  # only their addresses are looked at
    called.call("shapes", (x, weight, 1e-6), (out,), workload.size_map)
    addresses = {"x": x.data_ptr(), "weight": weight.data_ptr(), "out": out.data_ptr()}
    assert_launched(played, program, addresses)


@needs_nvrtc
def test_a_workspace_is_zeroed_once_a_stream_and_again_after_a_fault(tmp_path: Path, played: PlayedDriver) -> None:
    _, made, workload = built("rmsnorm_workspace")
    called = library(made, tmp_path)
    given = (torch.zeros(16), torch.zeros(16), 1e-6), (torch.zeros(16),), workload.size_map
    called.call("a", *given)
    first = len(played.zeroed)
    called.call("a", *given)
    assert first >= 1 and len(played.zeroed) == first, "the kernel leaves it zero"
    played.answers = [700]
    with pytest.raises(driver.DriverError, match="CUDA_ERROR_PLAYED"):
        called.call("a", *given)
    called.call("a", *given)
    assert len(played.zeroed) == 2 * first


@needs_nvrtc
def test_a_thread_that_is_new_to_cuda_gets_its_context(tmp_path: Path, played: PlayedDriver) -> None:
    _, made, workload = built("rmsnorm_vector")
    called = library(made, tmp_path)
    played.answers = [driver.NOT_CURRENT]
    called.call("a", (torch.zeros(16), torch.zeros(16), 1e-6), (torch.zeros(16),), workload.size_map)
    assert played.made_current == 1 and len(played.launches) == 1


@needs_nvrtc
def test_an_altered_cubin_or_formula_is_not_loaded(tmp_path: Path, played: PlayedDriver) -> None:
    _, made, _ = built("rmsnorm_vector")
    called = library(made, tmp_path)
    cubin = next(tmp_path.glob("*.cubin"))
    cubin.write_bytes(cubin.read_bytes() + b"\0")
    with pytest.raises(LibraryError, match="is not the file that was proved"):
        called.load()
    assert not library(made, tmp_path).holds({"rows": 1})


@needs_nvrtc
@pytest.mark.slow
def test_a_package_for_a_gpu_answers_by_the_reference_where_there_is_none(tmp_path: Path) -> None:
    candidate = contract_named("cuda").read(KERNELS / "rmsnorm_vector")
    made = export([making.proved("rmsnorm", candidate)], tmp_path / "out", "rms_gpu", architectures=["sm_90a"])
    (variant,) = made.manifest.forward
    assert (variant.kind, variant.features, variant.alignment) == ("cuda", ("sm_90a",), 256)
    code = (
        f"import sys; sys.path.insert(0, {str(made.folder)!r})\n"
        "import torch, warnings; from rms_gpu import rmsnorm; warnings.simplefilter('ignore')\n"
        "assert rmsnorm(torch.ones(2, 4), torch.ones(4), 1e-6).shape == (2, 4)\n"
        "from rms_gpu._runtime.device import DeviceLibrary\n"
        "print(list(rmsnorm.counts))\n"
        "for library in rmsnorm.forward_direction._libraries.values():\n"
        "    print(type(library._reader(library._path.read_bytes())).__module__)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, env=_without_ours())
    assert done.returncode == 0, done.stderr
    assert guards.DEVICE in done.stdout and "rms_gpu._runtime.portable.kernel" in done.stdout
    with pytest.raises(KernelwrightError, match="sm_42: is not known here"):
        export([making.proved("rmsnorm", candidate)], tmp_path / "other", "rms_gpu", architectures=["sm_42"])


def _without_ours() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


LAYOUT = """
#include <cuda.h>
#include <cstddef>
#include <cstdio>
int main() {
  printf("%zu %zu %zu ", sizeof(CUlaunchConfig), offsetof(CUlaunchConfig, hStream), offsetof(CUlaunchConfig, attrs));
  printf("%zu %zu ", offsetof(CUlaunchConfig, numAttrs), sizeof(CUlaunchAttribute));
  printf("%zu ", offsetof(CUlaunchAttribute, value));
  printf("%d %d %d ", CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
         CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  printf("%d ", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  printf("%d ", CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  printf("%d %d ", CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  printf("%d ", CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
  printf("%d %d %d ", CU_TENSOR_MAP_INTERLEAVE_32B, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  printf("%d ", CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
  printf("%zu %d", sizeof(CUtensorMap), CUDA_ERROR_INVALID_CONTEXT);
}
"""


def test_structures_and_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    headers = [path for path in Path("/usr/local").glob("cuda*/include") if (path / "cuda.h").is_file()]
    if not headers:
        pytest.skip("cuda.h is not here")
    (tmp_path / "layout.cpp").write_text(LAYOUT)
    command = [compiler(), "-I", str(headers[0]), str(tmp_path / "layout.cpp"), "-o", str(tmp_path / "layout")]
    subprocess.run(command, check=True)
    said = [int(one) for one in subprocess.check_output([str(tmp_path / "layout")], text=True).split()]
    made = driver.Configuration
    assert said == [
        *(ctypes.sizeof(made), made.stream.offset, made.attributes.offset, made.count.offset),
        *(ctypes.sizeof(driver.Attribute), driver.Attribute.value.offset),
        *(driver.COOPERATIVE, driver.CLUSTER, driver.DEPENDENT),
        *(driver.MAX_DYNAMIC_SHARED, driver.NON_PORTABLE_CLUSTER),
        *(driver.TYPES["f32"], driver.TYPES["bf16"], driver.TYPES["tf32"]),
        *(driver.INTERLEAVES["32b"], driver.SWIZZLES["128b"], driver.PROMOTIONS["256b"]),
        *(driver.FILLS["nan"], driver.MAP_BYTES, driver.NOT_CURRENT),
    ]
