"""The CUDA driver through NVIDIA's own bindings: imported where it is used, every answer checked."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from kernelwright.errors import CannotDecide

INSTALL = "pip install -e '.[cuda]' in the clone"


class CudaFailure(Exception):  # noqa: N818 - it names an answer of the driver
    """An answer of the driver other than success."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"{what}: {name}")
        self.what, self.name = what, name


@cache
def driver() -> Any:
    """The bindings' module, or one line that says how to get it."""
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise CannotDecide(f"the CUDA bindings are missing ({error}): {INSTALL}") from error


def check(result: tuple[Any, ...], what: str) -> Any:
    """What a call of the driver returned besides its status."""
    status = result[0]
    if int(status) != 0:
        raise CudaFailure(what, getattr(status, "name", str(status)))
    if len(result) == 1:
        return None
    return result[1] if len(result) == 2 else result[1:]


def use_device(index: int) -> Any:
    """Makes the device's primary context current, which torch shares, and returns the device."""
    cu = driver()
    check(cu.cuInit(0), "cuInit")
    device = check(cu.cuDeviceGet(index), f"no CUDA device {index}")
    context = check(cu.cuDevicePrimaryCtxRetain(device), "cuDevicePrimaryCtxRetain")
    check(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    return device


def attribute(device: Any, name: str) -> int:
    """A device attribute by the end of its name: `MULTIPROCESSOR_COUNT`."""
    cu = driver()
    which = getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(check(cu.cuDeviceGetAttribute(which, device), f"cuDeviceGetAttribute {name}"))
