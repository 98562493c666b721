"""Whether a device is well: asked before the first candidate, and after one that hung or broke its context."""

from __future__ import annotations

import time

from kernelwright.errors import CannotDecide
from kernelwright.isolation import gpu as confinement
from kernelwright.judge.gpu.client import Faulted, LauncherProcess

PATIENCE = 30.0  # the driver may need seconds to take down a kernel that does not end


def device_is_well(helpers: bytes, index: int = 0, *, confine: bool = False) -> bool:
    """A process of our own computes something on every multiprocessor."""
    try:
        with LauncherProcess(helpers, index, confine=confine) as canary:
            return canary.well()
    except (Faulted, CannotDecide):
        return False


def can_confine(helpers: bytes, index: int = 0) -> bool:
    """Whether CUDA works inside the launcher's sandbox on this machine. To be asked once."""
    return confinement.possible() and device_is_well(helpers, index, confine=True)


def wait_until_well(helpers: bytes, index: int = 0, patience: float = PATIENCE) -> None:
    """Returns when the device is well; if it does not get well, nothing can be judged on it."""
    until = time.monotonic() + patience
    while not device_is_well(helpers, index):
        if time.monotonic() > until:
            raise CannotDecide(f"GPU {index} does not compute any more; it may need a reset (nvidia-smi --gpu-reset)")
        time.sleep(0.5)
