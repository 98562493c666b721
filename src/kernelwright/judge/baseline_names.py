"""Baselines by name: which there are on a kind of device, and which are usual there.

eager             PyTorch as it runs the reference, line by line
compile           torch.compile; on a GPU max-autotune without CUDA graphs
compile-best      the fastest of three such compiles, which differ (on hidden workloads of one)
compile-default   torch.compile as it is by default: quicker to prepare, and slower where products are tuned
compile-training  a backward as training has it: the forward comes before the timed window, and keeps what it
                  likes for later
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.devices.names import Kind
from kernelwright.errors import KernelwrightError

TRAINING = "compile-training"
_USUAL: dict[Kind, tuple[str, ...]] = {"cpu": ("eager", "compile"), "cuda": ("eager", "compile")}
_FURTHER: dict[Kind, tuple[str, ...]] = {"cpu": (), "cuda": ("compile-best", "compile-default", TRAINING)}


def usual(kind: Kind) -> tuple[str, ...]:
    """What a candidate is compared with unless others are named."""
    return _USUAL[kind]


def known(kind: Kind) -> tuple[str, ...]:
    return usual(kind) + _FURTHER[kind]


def chosen(names: Sequence[str], kind: Kind) -> tuple[str, ...]:
    """Those that were named, each once, or the usual ones where none was."""
    for name in names:
        if name not in known(kind):
            raise KernelwrightError(f"unknown baseline {name!r}: choose from {', '.join(known(kind))}")
    return tuple(name for name in known(kind) if name in names) or usual(kind)


def names_for_help() -> str:
    """All names, for the help of a command."""
    further = [name for name in known("cuda") if name not in known("cpu")]
    return f"{', '.join(known('cpu'))}; on a GPU also {', '.join(further)}"
