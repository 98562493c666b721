"""A program is launched without the judge: on torch tensors, or on raw memory, with scratch that the caller gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.contracts.program import Argument, Block, Pointer, Program, ProgramStep
from kernelwright.runtime.launch import Arguments, MissingMemory, block_addresses, u32, u64

KERNELS = Path(__file__).parents[1] / "kernels_cuda"
PROGRAM = Program(
    base=1 << 40,
    span=1 << 30,
    blocks=(
        Block("x", 1 << 40, 4096, 0, 1024, False),
        Block("total", (1 << 40) + 8192, 4096, 0, 64, True, "zero"),
        Block("out", (1 << 40) + 16384, 4096, 0, 1024, True, "output"),
    ),
    steps=(ProgramStep(0, "run", (1, 1, 1), (32, 1, 1), (Argument("00" * 8, (Pointer(0, 0, 0),)),)),),
    modules=1,
)


class Tensor:
    def __init__(self, address: int) -> None:
        self._address = address

    def data_ptr(self) -> int:
        return self._address


def test_blocks_are_given_by_name_as_tensors_or_addresses() -> None:
    asked: list[int] = []

    def allocate(size: int) -> int:
        asked.append(size)
        return 300

    assert block_addresses(PROGRAM, {"out": Tensor(200), "x": 100}, allocate) == [100, 300, 200]
    assert asked == [64]


def test_memory_that_is_missing_is_named() -> None:
    with pytest.raises(MissingMemory, match="no memory is given for x"):
        block_addresses(PROGRAM, {"out": 200}, lambda _: 300)
    with pytest.raises(MissingMemory, match=r"64 bytes of scratch \(total\)"):
        block_addresses(PROGRAM, {"out": 200, "x": 100})


def test_arguments_lie_apart_and_stay() -> None:
    import ctypes

    arguments = Arguments(u32(7), u64(1 << 40), b"x" * 100)
    pointers = (ctypes.c_void_p * 3).from_address(arguments.address)
    assert all(pointer % 64 == 0 for pointer in pointers)
    assert ctypes.c_uint32.from_address(pointers[0]).value == 7
    assert ctypes.c_uint64.from_address(pointers[1]).value == 1 << 40
    assert ctypes.string_at(pointers[2], 100) == b"x" * 100


def test_the_runtime_loads_neither_torch_nor_the_judge() -> None:
    program = (
        "import sys, kernelwright.runtime.launch, kernelwright.runtime.memory\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'kernelwright.judge'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert made.stdout.strip() == "[]", made.stderr


@pytest.fixture(scope="module")
def gpu() -> Iterator[None]:
    from kernelwright.contracts import nvrtc
    from kernelwright.devices import nvidia

    if missing := nvidia.absence() or nvrtc.available():
        pytest.skip(missing)
    yield


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["rmsnorm_vector", "rmsnorm_split", "rmsnorm_workspace"])
def test_a_candidate_runs_on_torch_tensors_without_the_judge(name: str, gpu: None) -> None:
    import torch

    from kernelwright.contracts.cuda.toolchain.build import GpuBuild, build_cuda
    from kernelwright.contracts.cuda.toolchain.builder import BuilderPool
    from kernelwright.contracts.registry import read_source
    from kernelwright.contracts.target import target_of
    from kernelwright.devices.nvidia import probe
    from kernelwright.runtime.launch import LoadedProgram
    from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

    rows, cols, eps = 64, 4096, 1e-6
    signature = Signature(
        (
            TensorSpec("x", "float32", (rows, cols), (cols, 1), "input"),
            TensorSpec("weight", "float32", (cols,), (1,), "input"),
            ScalarSpec("eps", eps),
            TensorSpec("out", "float32", (rows, cols), (cols, 1), "output"),
        )
    )
    target = target_of(probe())
    pool = BuilderPool(target.architecture)
    try:
        made = build_cuda(read_source(KERNELS / name), (signature,), target, pool)
    finally:
        pool.close()
    assert isinstance(made, GpuBuild), made
    built = made.built[0]
    x, weight = torch.randn(rows, cols, device="cuda"), torch.randn(cols, device="cuda")
    kept: list[torch.Tensor] = []

    def allocate(size: int) -> torch.Tensor:
        kept.append(torch.zeros(size, dtype=torch.uint8, device="cuda"))
        return kept[-1]

    loaded = LoadedProgram(built.program, built.modules)
    loaded.check_arguments()
    stream = torch.cuda.Stream()
    outputs = [torch.full((rows, cols), float("nan"), device="cuda") for _ in range(2)]
    torch.cuda.synchronize()
    for out in outputs:  # twice: on other memory, and with scratch that a call has used
        given = {"x": x, "weight": weight, "out": out}
        loaded.launch(block_addresses(built.program, given, allocate), stream.cuda_stream)
    torch.cuda.synchronize()
    wide = x.double()
    expected = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.double()
    for out in outputs:
        assert float((out.double() - expected).abs().max()) < 1e-4
    loaded.unload()
