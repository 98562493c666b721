"""Launches of the fast path, on a CUDA driver that is played: what is launched is what the Python side launches.

No GPU is needed, and nothing here says that a kernel ran on one. Tensors on the CPU stand in for those of a GPU.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.devices.compiler import compiler
from kernelwright.export.standalone import device, driver, fastbuild
from kernelwright.export.standalone.device import DeviceLibrary, _Argument, _Copy, _Launch, _Memset, _Plan

pytestmark = pytest.mark.slow
MAP = {
    "name": "x", "offset": 16, "type": "f32", "sizes": [64, 8], "strides": [256], "box": [32, 8], "steps": [1, 1],
    "interleave": "none", "swizzle": "128b", "promotion": "256b", "fill": "zero",
}  # fmt: skip

PLAYED = r"""
#include <cstdint>
#include <cstdio>
#include <cstring>
struct Attribute { unsigned id; char pad[4]; unsigned value[16]; };
struct Form { unsigned grid[3], block[3], shared; void* stream; Attribute* attributes; unsigned count; };
extern "C" {
char played_text[1 << 16];
int played_answers[8], played_next = 0, played_capturing = 0;
static void say(const char* text) { std::strcat(played_text, text); }
int cuLaunchKernelEx(const Form* form, void* kernel, void** arguments, void**) {
  const int answer = played_answers[played_next++ % 8];
  char line[400];
  std::snprintf(line, sizeof line, "launch %zu grid %u,%u,%u block %u,%u,%u shared %u attributes", (size_t)kernel,
                form->grid[0], form->grid[1], form->grid[2], form->block[0], form->block[1], form->block[2],
                form->shared);
  say(line);
  for (unsigned i = 0; i < form->count; ++i) {
    const Attribute& one = form->attributes[i];
    std::snprintf(line, sizeof line, " %u:%u,%u,%u", one.id, one.value[0], one.value[1], one.value[2]);
    say(line);
  }
  uint64_t address;
  uint32_t number;
  std::memcpy(&address, arguments[0], 8);
  std::memcpy(&number, arguments[1], 4);
  std::snprintf(line, sizeof line, " pointer %llu number %u status %d\n", (unsigned long long)address, number, answer);
  say(line);
  return answer;
}
int cuGetErrorName(int, const char** name) { *name = "CUDA_ERROR_PLAYED"; return 0; }
int cuDevicePrimaryCtxRetain(void**, int) { return 0; }
int cuCtxSetCurrent(void*) { say("made current\n"); return 0; }
int cuMemsetD8Async(void* address, unsigned char value, size_t size, void*) {
  char line[80];
  std::snprintf(line, sizeof line, "zeroed %zu\n", size);
  say(line);
  std::memset(address, value, size);
  return 0;
}
int cuMemsetD16Async(void* address, unsigned short value, size_t count, void*) {
  char line[80];
  std::snprintf(line, sizeof line, "set %zu twos to %u at %llu\n", count, value, (unsigned long long)address);
  say(line);
  return 0;
}
int cuMemsetD32Async(void* address, unsigned value, size_t count, void*) {
  char line[80];
  std::snprintf(line, sizeof line, "set %zu fours to %u at %llu\n", count, value, (unsigned long long)address);
  say(line);
  return 0;
}
int cuMemcpyDtoDAsync_v2(void* target, void* source, size_t size, void*) {
  char line[80];
  std::snprintf(line, sizeof line, "copied %zu from %llu to %llu\n", size, (unsigned long long)source,
                (unsigned long long)target);
  say(line);
  return 0;
}
int cuStreamIsCapturing(void*, int* status) { *status = played_capturing; return 0; }
int cuTensorMapEncodeTiled(void* target, unsigned type, unsigned rank, void* address, const uint64_t* sizes,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* steps, unsigned interleave,
                           unsigned swizzle, unsigned promotion, unsigned fill) {
  char line[400];
  std::snprintf(line, sizeof line,
                "map %zu type %u rank %u at %llu sizes %llu,%llu strides %llu box %u,%u steps %u,%u %u %u %u %u\n",
                (size_t)target % 64, type, rank, (unsigned long long)address, (unsigned long long)sizes[0],
                (unsigned long long)sizes[1], (unsigned long long)strides[0], box[0], box[1], steps[0], steps[1],
                interleave, swizzle, promotion, fill);
  say(line);
  return 0;
}
}
"""


class Played:
    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))

    def said(self) -> list[str]:
        text = ctypes.c_char.in_dll(self._library, "played_text")
        lines = ctypes.string_at(ctypes.addressof(text)).decode().splitlines()
        ctypes.memset(ctypes.addressof(text), 0, 1)
        return lines

    def answer(self, *statuses: int) -> None:
        answers = (ctypes.c_int * 8).in_dll(self._library, "played_answers")
        answers[:] = [*statuses, *[0] * (8 - len(statuses))]
        ctypes.c_int.in_dll(self._library, "played_next").value = 0

    def capture(self, capturing: bool) -> None:
        ctypes.c_int.in_dll(self._library, "played_capturing").value = int(capturing)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    (tmp_path / "played.cpp").write_text(PLAYED)
    path = tmp_path / "libplayed.so"
    subprocess.run([compiler(), "-shared", "-fPIC", "-O1", str(tmp_path / "played.cpp"), "-o", str(path)], check=True)
    monkeypatch.setattr(driver, "NAME", str(path))
    device.fast_driver.cache_clear()
    return Played(path)


class Given(DeviceLibrary):
    """With a plan that is there already: what a formula gives is tested elsewhere."""

    def __init__(self, plan: _Plan) -> None:
        super().__init__(Path("unused"), "", "sm_90a", ("x", "weight", "eps", "out"), None)
        self._plan = plan

    def _planned(self, sizes: Any, device: Any) -> _Plan:
        return self._plan


def launch(kernel: int, *arguments: _Argument, **changes: Any) -> _Launch:
    form = {"grid": (3, 2, 1), "block": (128, 1, 1), "shared": 512, "attributes": (), **changes}
    return _Launch(ctypes.c_void_p(kernel), **form, arguments=arguments)


def pointer(name: str, offset: int = 0) -> _Argument:
    return _Argument(bytes(8), ((0, name, offset),))


NUMBER = _Argument((7).to_bytes(4, "little"))


class Chosen:
    """What the choice of a variant gives to its library."""

    def __init__(self, library: DeviceLibrary, x: torch.Tensor) -> None:
        self.library, self.sizes, self.device = library, {}, x.device
        self.outputs = ((tuple(x.shape), x.dtype),)
        self.key = ((x.shape, torch.Size([16])), (x.dtype, x.dtype), x.device, torch.get_num_threads(), False)


def entered(plan: _Plan) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """The module's kernel with one plan, as a call."""
    module = fastbuild.open_module()
    assert module is not None
    x, weight = torch.zeros(4, 16), torch.zeros(16)
    kernel = module.Kernel(
        name="rmsnorm", kind="cpu", call=[(0, None), (1, None), (-1, 1e-6)],
        reference=[(0, None), (1, None), (-1, 1e-6)], least=3, returns="tensor", differentiable=[0], gradients=[0, 1],
        changed=[False, False], alignments=(1, 1), slow_backward=None,
    )  # fmt: skip
    chosen = Chosen(Given(plan), x)
    body = chosen.library.fast_body(module, chosen, (x, weight, 1e-6))
    forms = [(list(shape), dtype) for shape, dtype in zip(chosen.key[0], chosen.key[1], strict=True)]
    outputs = [(list(shape), dtype) for shape, dtype in chosen.outputs]
    kernel.enter(False, forms, outputs, x.device, torch.get_num_threads(), False, False, body)
    return kernel.callable(), x, weight


def test_launches_carry_addresses_numbers_and_attributes(fast_path: Path, played: Played) -> None:
    first = launch(5, pointer("x", 8), NUMBER, attributes=((driver.CLUSTER, (2, 1, 1)), (driver.DEPENDENT, (1,))))
    call, x, weight = entered(_Plan((first, launch(6, pointer("out"), NUMBER)), (), ()))
    result = call(x, weight, 1e-6)
    assert played.said() == [
        f"launch 5 grid 3,2,1 block 128,1,1 shared 512 attributes 4:2,1,1 6:1,0,0 pointer {x.data_ptr() + 8} number 7 "
        "status 0",
        f"launch 6 grid 3,2,1 block 128,1,1 shared 512 attributes pointer {result.data_ptr()} number 7 status 0",
    ]
    assert call(x, weight, 1e-5) is NotImplemented and call(x[:2], weight, 1e-6) is NotImplemented


def test_a_tensor_map_is_encoded_at_the_tensors_address(fast_path: Path, played: Played) -> None:
    mapped = _Argument(bytes(driver.MAP_BYTES), tensor_map=MAP)
    call, x, weight = entered(_Plan((launch(5, pointer("weight"), NUMBER, mapped),), (), ()))
    call(x, weight, 1e-6)
    assert played.said()[0] == (
        f"map 0 type {driver.TYPES['f32']} rank 2 at {x.data_ptr() + 16} sizes 64,8 strides 256 box 32,8 steps 1,1 "
        f"0 {driver.SWIZZLES['128b']} {driver.PROMOTIONS['256b']} 0"
    )


def test_a_tensor_map_is_encoded_once_for_each_address(fast_path: Path, played: Played) -> None:
    mapped = _Argument(bytes(driver.MAP_BYTES), tensor_map=MAP)
    call, x, weight = entered(_Plan((launch(5, pointer("weight"), NUMBER, mapped),), (), ()))
    others = [torch.zeros_like(x) for _ in range(20)]
    for one in (x, x, others[0], x):
        call(one, weight, 1e-6)
    assert [line.split()[7] for line in played.said() if line.startswith("map")] == [
        str(one.data_ptr() + 16) for one in (x, others[0])
    ]
    for one in others:  # more than are kept
        call(one, weight, 1e-6)
    played.said()
    call(x, weight, 1e-6)
    assert f" at {x.data_ptr() + 16} " in played.said()[0]


def test_memsets_and_copies_come_between_launches(fast_path: Path, played: Played) -> None:
    steps = (
        _Memset("out", 8, 64, 7, 4),
        launch(5, pointer("x"), NUMBER),
        _Memset("raw", 0, 6, 9, 2),
        _Copy("out", 16, "raw", 4, 12),
    )
    call, x, weight = entered(_Plan(steps, (("raw", 32, False),), ()))
    result = call(x, weight, 1e-6)
    first, launched, second, copied = played.said()
    assert first == f"set 16 fours to 7 at {result.data_ptr() + 8}" and launched.startswith("launch 5")
    raw = int(second.removeprefix("set 3 twos to 9 at "))
    assert copied == f"copied 12 from {raw + 4} to {result.data_ptr() + 16}"


def test_scratch_is_zeroed_for_each_call_and_a_workspace_once(fast_path: Path, played: Played) -> None:
    plan = _Plan((launch(5, pointer("work"), NUMBER),), (("scratch", 96, True), ("raw", 32, False)), (("work", 128),))
    call, x, weight = entered(plan)
    call(x, weight, 1e-6)
    first = played.said()
    call(x, weight, 1e-6)
    second = played.said()
    assert first[:2] == ["zeroed 96", "zeroed 128"] and second[0] == "zeroed 96" and len(second) == 2
    assert first[2].split("pointer ")[1] == second[1].split("pointer ")[1], "the same workspace"
    played.capture(True)
    call(x, weight, 1e-6)
    third = played.said()
    played.capture(False)
    assert third[:2] == ["zeroed 96", "zeroed 128"], "a captured graph has a workspace of its own"
    assert third[2].split("pointer ")[1] != second[1].split("pointer ")[1]
    played.answer(700)
    with pytest.raises(RuntimeError, match="cuLaunchKernelEx: CUDA_ERROR_PLAYED"):
        call(x, weight, 1e-6)
    played.said()
    call(x, weight, 1e-6)
    assert played.said()[:2] == ["zeroed 96", "zeroed 128"], "what a fault left there is not known"


def test_a_thread_that_is_new_to_cuda_gets_its_context(fast_path: Path, played: Played) -> None:
    call, x, weight = entered(_Plan((launch(5, pointer("x"), NUMBER),), (), ()))
    played.answer(driver.NOT_CURRENT)
    call(x, weight, 1e-6)
    said = played.said()
    assert said[1] == "made current" and said[2].endswith("status 0")


def test_an_address_outside_of_its_argument_is_refused(fast_path: Path, played: Played) -> None:
    wrong = _Argument(bytes(8), ((4, "x", 0),))
    with pytest.raises(ValueError, match="outside of its argument"):
        entered(_Plan((launch(5, wrong, NUMBER),), (), ()))


def test_without_the_drivers_functions_python_launches(
    fast_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = fastbuild.open_module()
    monkeypatch.setattr(driver, "NAME", "libc.so.6")
    device.fast_driver.cache_clear()
    x = torch.zeros(4, 16)
    chosen = Chosen(Given(_Plan((launch(5, pointer("x"), NUMBER),), (), ())), x)
    assert chosen.library.fast_body(module, chosen, (x, torch.zeros(16), 1e-6)) is None
