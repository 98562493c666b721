"""The few functions of the CUDA driver that a launch needs, through ctypes: no header and no binding of CUDA.

Structures are as cuda.h has them (12.0 and later); a test compiles that header and compares.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

NAME = "libcuda.so.1"
NOT_CURRENT = 201  # a thread that is new to CUDA has no context
MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14
COOPERATIVE, CLUSTER, DEPENDENT = 2, 4, 6
TYPES = {"u8": 0, "u16": 1, "u32": 2, "i32": 3, "u64": 4, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "tf32": 11}
INTERLEAVES = {"none": 0, "16b": 1, "32b": 2}
SWIZZLES = {"none": 0, "32b": 1, "64b": 2, "128b": 3}
PROMOTIONS = {"none": 0, "64b": 1, "128b": 2, "256b": 3}
FILLS = {"zero": 0, "nan": 1}
MAP_BYTES, MAP_ALIGNMENT = 128, 64
WORDS = {1: ctypes.c_ubyte, 2: ctypes.c_ushort, 4: ctypes.c_uint}


class DriverError(RuntimeError):
    """What the driver answered where it did not do as it was asked."""


class Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class Configuration(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


@cache
def library() -> Any:
    """Found when it is first needed: importing a package must not need a GPU."""
    try:
        return ctypes.CDLL(NAME)
    except OSError as error:
        raise DriverError(f"{NAME} cannot be loaded: {error}") from error


def check(status: int, what: str) -> None:
    if status:
        name = ctypes.c_char_p()
        library().cuGetErrorName(status, ctypes.byref(name))
        raise DriverError(f"{what}: {(name.value or b'unknown error').decode()}")


def load_module(content: bytes) -> ctypes.c_void_p:
    """Of every device at once: the driver brings it to one when a kernel of it is first launched there."""
    module = ctypes.c_void_p()
    nothing = ctypes.c_void_p()
    check(
        library().cuLibraryLoadData(ctypes.byref(module), content, nothing, nothing, 0, nothing, nothing, 0),
        "cuLibraryLoadData",
    )
    return module


def kernel_of(module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
    found = ctypes.c_void_p()
    check(library().cuLibraryGetKernel(ctypes.byref(found), module, name.encode()), f"cuLibraryGetKernel {name}")
    return found


def set_attribute(kernel: ctypes.c_void_p, which: int, value: int, device: int) -> None:
    check(library().cuKernelSetAttribute(which, value, kernel, device), "cuKernelSetAttribute")


def make_current(device: int) -> None:
    context = ctypes.c_void_p()
    check(library().cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(library().cuCtxSetCurrent(context), "cuCtxSetCurrent")


def fill_zero(address: int, size: int, stream: int) -> None:
    fill(address, size, 0, 1, stream)


def fill(address: int, size: int, value: int, width: int, stream: int) -> None:
    """`size` bytes set to a value that has `width` bytes."""
    function = f"cuMemsetD{8 * width}Async"
    status = getattr(library(), function)(
        ctypes.c_uint64(address), WORDS[width](value), ctypes.c_size_t(size // width), ctypes.c_void_p(stream)
    )
    check(status, function)


def copy(target: int, source: int, size: int, stream: int) -> None:
    status = library().cuMemcpyDtoDAsync_v2(
        ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(size), ctypes.c_void_p(stream)
    )
    check(status, "cuMemcpyDtoDAsync")


def launch(kernel: ctypes.c_void_p, configuration: Configuration, arguments: Any, device: int) -> None:
    call = library().cuLaunchKernelEx
    status = call(ctypes.byref(configuration), kernel, arguments, ctypes.c_void_p())
    if status == NOT_CURRENT:
        make_current(device)
        status = call(ctypes.byref(configuration), kernel, arguments, ctypes.c_void_p())
    check(status, "cuLaunchKernelEx")


def map_numbers(given: Any) -> dict[str, Any]:
    """A tensor map's description in a plan, with the driver's numbers for its names."""
    return {
        "type": TYPES[given["type"]],
        **{name: list(given[name]) for name in ("sizes", "strides", "box", "steps")},
        "interleave": INTERLEAVES[given["interleave"]],
        "swizzle": SWIZZLES[given["swizzle"]],
        "promotion": PROMOTIONS[given["promotion"]],
        "fill": FILLS[given["fill"]],
    }


def encoded_map(address: int, given: Any) -> bytes:
    """A tensor map from its description in a plan."""
    buffer = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
    target = -(-ctypes.addressof(buffer) // MAP_ALIGNMENT) * MAP_ALIGNMENT
    numbers = map_numbers(given)
    status = library().cuTensorMapEncodeTiled(
        ctypes.c_void_p(target),
        numbers["type"],
        len(numbers["sizes"]),
        ctypes.c_void_p(address),
        _array(ctypes.c_uint64, numbers["sizes"]),
        _array(ctypes.c_uint64, numbers["strides"]),
        _array(ctypes.c_uint32, numbers["box"]),
        _array(ctypes.c_uint32, numbers["steps"]),
        *(numbers[name] for name in ("interleave", "swizzle", "promotion", "fill")),
    )
    check(status, "cuTensorMapEncodeTiled")
    return ctypes.string_at(target, MAP_BYTES)


def _array(kind: Any, values: Sequence[int]) -> Any:
    return (kind * max(1, len(values)))(*values)
