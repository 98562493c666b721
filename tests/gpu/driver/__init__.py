"""A CUDA driver that is played, for NVIDIA's own bindings: built where it is needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kernelwright.devices.compiler import compiler

SOURCE = Path(__file__).parent / "played_driver.cpp"


def build(folder: Path, *defined: str) -> Path:
    """The folder, with the library under the driver's name in it. `defined` says how a gate behaves."""
    flags = ("-std=c++17", "-O1", "-shared", "-fPIC", *(f"-D{name}" for name in defined))
    subprocess.run(
        [compiler(), *flags, str(SOURCE), "-o", str(folder / "libcuda.so.1"), "-ldl", "-lpthread"], check=True
    )
    return folder
