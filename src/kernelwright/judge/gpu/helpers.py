"""The judge's own kernels, compiled once for each kind of GPU and kept in the cache."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from kernelwright.contracts.nvrtc import CompileError, compile_cuda, version
from kernelwright.errors import CannotDecide
from kernelwright.paths import cache_dir, write_whole

SOURCE = Path(__file__).parent / "helper_kernels.cu"


@cache
def helper_kernels(architecture: str) -> bytes:
    """The cubin of helper_kernels.cu for an architecture such as `sm_90`."""
    source = SOURCE.read_text(encoding="utf-8")
    digest = hashlib.sha256(f"{version()} {architecture} {source}".encode()).hexdigest()
    path = cache_dir("native") / f"{digest[:24]}-helper_kernels.cubin"
    if path.exists():
        return path.read_bytes()
    try:
        cubin = compile_cuda(source, SOURCE.name, [f"--gpu-architecture={architecture}"], []).cubin
    except CompileError as error:
        raise CannotDecide(f"cannot compile the judge's own {SOURCE.name}: {error.log.splitlines()[0]}") from error
    write_whole(path, cubin)
    return cubin
