"""NVIDIA's own tools around a launcher: where they are on this machine."""

from __future__ import annotations

import os
import shutil
from functools import cache


@cache
def tool(name: str) -> str | None:
    """The path of a program that comes with the CUDA toolkit."""
    homes = [os.environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH")]
    folders = [f"{home}/bin" for home in homes if home]
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *folders, "/usr/local/cuda/bin"]))
