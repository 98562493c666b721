"""How a device is named on the command line, in settings and in certificates: `cpu`, `cuda`, `cuda:1`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kernelwright.errors import KernelwrightError

Kind = Literal["cpu", "cuda"]
_NAME = re.compile(r"(cpu)|cuda(?::(\d{1,3}))?")


@dataclass(frozen=True)
class Device:
    """`index` numbers GPUs as CUDA programs see them."""

    kind: Kind = "cpu"
    index: int = 0

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"cuda:{self.index}"


CPU = Device()


def device_named(name: str) -> Device:
    """The device with this name, or one line that says what names there are."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise KernelwrightError(f"unknown device {name!r}: write cpu, cuda or cuda:N")
    return CPU if match.group(1) else Device("cuda", int(match.group(2) or 0))


def require(device: Device, *, at_a_glance: bool = False) -> None:
    """Refuses a device that is not there, in one line that says what is missing.

    Asking a GPU's driver takes a moment. `at_a_glance` only sees whether there is one; the judge asks it in any case.
    """
    if device.kind == "cpu":
        return
    from kernelwright.devices import nvidia

    missing = nvidia.driver_absence() if at_a_glance else nvidia.absence()
    if not missing and not at_a_glance and device.index >= (number := nvidia.count()):
        missing = f"CUDA sees {number} GPU{'' if number == 1 else 's'}, numbered from 0"
    if missing:
        raise KernelwrightError(f"{device} cannot be used: {missing}")
