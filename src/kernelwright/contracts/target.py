"""The kind of GPU that a candidate is built for: what a plan may know of it, and what the compiler is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.devices.nvidia import Gpu


@dataclass(frozen=True)
class Target:
    """`architecture` names the real one with its own instructions (`sm_90a`), not a family."""

    architecture: str
    multiprocessors: int
    shared_per_block: int
    l2_bytes: int


HOPPER = Target("sm_90a", 132, 232448, 62914560)
"""An H100 or H200, for building where there is no GPU."""


def architecture(capability: tuple[int, int]) -> str:
    """The compiler's name for a compute capability: from 9.0 on with the instructions of that chip alone."""
    major, minor = capability
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def target_of(gpu: Gpu) -> Target:
    return Target(architecture(gpu.capability), gpu.multiprocessors, gpu.shared_per_block, gpu.l2_bytes)
