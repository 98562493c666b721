"""How fast memory is copied with stores that do not read first what they overwrite, by a small program of our own."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

from kernelwright.devices.compiler import compiled, compiler
from kernelwright.errors import CannotDecide

SOURCE = Path(__file__).parent / "native" / "copy.cpp"
FLAGS = ("-O2", "-fopenmp")
TIMES = 30  # a few milliseconds each; whoever else computes here must leave one of them alone
PATIENCE = 60.0


def streams() -> bool:
    """Whether it can be measured: on x86-64, with a compiler. ARM's cores need no such stores for the same."""
    if platform.machine() != "x86_64":
        return False
    try:
        compiler()
    except CannotDecide:
        return False
    return True


def streaming_copy(size: int, threads: int) -> float:
    """Bytes per second, read and written, of copying so many bytes."""
    program = compiled(SOURCE, "copy", FLAGS)
    command = [str(program), str(size), str(TIMES), str(threads)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotDecide(f"cannot measure this machine's memory: {error}") from error
    return 2 * size / float(done.stdout)
