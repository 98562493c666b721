"""Where CUDA's headers are on this machine, and the libraries of headers that may stand beside them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kernelwright.contracts import nvrtc
from kernelwright.contracts.model import Part
from kernelwright.devices.driver import INSTALL

TOOLKIT = "install the CUDA toolkit, or name its folder in CUDA_HOME"
OWN_HEADERS = Path(__file__).parent / "include"
SLOW_HEADERS = ("cooperative_groups.h",)
"""What takes longer to read than a precompiled header takes to load. The headers of narrow floats and of tensor cores
do not."""


def parts() -> tuple[Part, ...]:
    """What compiles candidates, which needs no GPU. Of the two only NVRTC is indispensable."""
    missing = nvrtc.available()
    compiler = Part(
        what="NVRTC",
        found=missing or ".".join(map(str, nvrtc.version())),
        missing=bool(missing),
        fix=INSTALL if missing else "",
    )
    headers = Part(
        what="CUDA headers",
        found=str(include_directories()[0]) if has_toolkit() else "missing: kernels cannot include cuda_fp16.h",
        missing=not has_toolkit(),
        fix="" if has_toolkit() else TOOLKIT,
        needed=False,
    )
    return compiler, headers


@cache
def has_toolkit() -> bool:
    return any((folder / "cuda_fp16.h").is_file() for folder in include_directories())


@cache
def include_directories() -> tuple[Path, ...]:
    """In the order of search: the toolkit's, CUTLASS (found by `CUTLASS_PATH` or as a wheel), and ours.

    Ours stand in for the host's headers, which NVRTC does not have and kernels include by habit.
    """
    found: list[Path] = []
    for root in _roots():
        if (root / "cuda_fp16.h").is_file():
            found.append(root)
            if (root / "cccl").is_dir():
                found.append(root / "cccl")
            break
    for root in _cutlass():
        if (root / "cutlass" / "cutlass.h").is_file():
            found.append(root)
            break
    return tuple(path.resolve() for path in (*found, OWN_HEADERS))


def _roots() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if value := os.environ.get(variable):
            yield Path(value) / "include"
    yield Path("/usr/local/cuda/include")
    yield from sorted(Path("/usr/local").glob("cuda-*/include"), reverse=True)
    for folder in _packages():
        yield from sorted((folder / "nvidia").glob("cu1*/include"), reverse=True)
        yield folder / "nvidia" / "cuda_runtime" / "include"


def _cutlass() -> Iterator[Path]:
    if value := os.environ.get("CUTLASS_PATH"):
        yield Path(value) / "include"
    for folder in _packages():
        yield folder / "cutlass_library" / "source" / "include"


def _packages() -> list[Path]:
    return [Path(entry) for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
