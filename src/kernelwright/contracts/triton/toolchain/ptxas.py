"""Assembles the PTX of a recorder in the builder's sandbox, by the ptxas of the installed Triton."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import math
import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelwright.contracts.cuda.toolchain.cubin import Resources, resources
from kernelwright.contracts.model import BuildFailure, Part
from kernelwright.contracts.target import Target
from kernelwright.errors import CannotDecide
from kernelwright.isolation import start, warden
from kernelwright.isolation.log import Log, shown_lines
from kernelwright.isolation.roles import Role
from kernelwright.paths import cache_dir, write_whole

TESTED = ("3.6",)
INSTALL = 'pip install "kernelwright[triton]", which takes a tested version of Triton'
SECONDS = 90.0
SCRATCH = 256 << 20
MOST_CUBIN = 32 << 20
LINES = 20


@dataclass(frozen=True)
class Assembled:
    cubin: bytes
    resources: tuple[Resources, ...]
    cached: bool


@cache
def version() -> str:
    """Of the installed Triton, which is not imported here; empty where there is none."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""


def absence() -> str:
    """Why no candidate can be built, or nothing."""
    found = version()
    if not found:
        return f"Triton is not installed: {INSTALL}"
    if not found.startswith(tuple(f"{one}." for one in TESTED)):
        return f"Triton {found} is installed, and {', '.join(TESTED)} is tested: {INSTALL}"
    return ""


@cache
def ptxas(blackwell: bool = False) -> Path:
    spec = importlib.util.find_spec("triton")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).resolve().parent / "backends" / "nvidia" / "bin"
    return folder / ("ptxas-blackwell" if blackwell else "ptxas")


@cache
def ptxas_version(blackwell: bool = False) -> str:
    said = subprocess.run([str(ptxas(blackwell)), "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release (\d+\.\d+)", said)
    return found[1] if found else "0.0"


def ptx_version(target: Target) -> int:
    """The highest that this ptxas takes, as Triton numbers them."""
    major, minor = map(int, ptxas_version(capability(target) >= 100).split("."))
    if major == 13:
        return 90 + minor
    return 80 + minor - (minor >= 6)


def capability(target: Target) -> int:
    return int("".join(filter(str.isdigit, target.architecture)))


def parts() -> tuple[Part, ...]:
    missing = absence()
    return (Part("triton", missing or version(), missing=bool(missing), fix=INSTALL if missing else ""),)


def assemble(ptx: str, target: Target, *, fused: bool, until: float = math.inf) -> Assembled | BuildFailure:
    """The cubin of one kernel. `fused`: multiplications and additions may become one instruction; `until`: the end of
    the time for all kernels of a candidate, on the monotonic clock."""
    blackwell = capability(target) >= 100
    flags = ("-lineinfo", "-v", f"--gpu-name={target.architecture}", *(() if fused else ("--fmad=false",)))
    told = "\0".join((ptxas_version(blackwell), *flags, ptx))
    path = cache_dir("triton", (digest := hashlib.sha256(told.encode()).hexdigest())[:2]) / f"{digest}.cubin"
    report = path.with_suffix(".log")
    try:
        return Assembled(path.read_bytes(), resources(report.read_text(encoding="utf-8")), cached=True)
    except (OSError, UnicodeDecodeError):
        pass  # not there yet
    made = _run(ptx, flags, ptxas(blackwell), min(SECONDS, until - time.monotonic()))
    if isinstance(made, BuildFailure):
        return made
    cubin, text = made
    try:
        write_whole(report, text.encode())
        write_whole(path, cubin)
    except OSError as error:
        raise CannotDecide(f"cannot write the build cache {path.parent}: {error.strerror}") from error
    return Assembled(cubin, resources(text), cached=False)


def _run(ptx: str, flags: tuple[str, ...], program: Path, seconds: float) -> tuple[bytes, str] | BuildFailure:
    if seconds <= 0:
        return BuildFailure(("ptxas has no time left for this kernel",), timed_out=True)
    log, product = Log(1 << 18), os.memfd_create("cubin", os.MFD_CLOEXEC)
    try:
        with tempfile.TemporaryDirectory(prefix="kernelwright-ptxas-") as name:
            folder = Path(name)
            start.make_folder(folder, {"kernel.ptx": ptx})
            source, output = start.source_directory(folder), f"{start.scratch_directory(folder)}/kernel.cubin"
            grant = start.Grant(folder=folder, scratch_bytes=SCRATCH, visible=(program,))
            command = [str(program), *flags, f"{source}/kernel.ptx", "-o", output]
            reply = start.run(Role.builder, command, grant, seconds, log, (product, output))
        if reply.ending is warden.Ending.timeout:
            return BuildFailure((f"ptxas did not finish within {seconds:.0f} s",), timed_out=True)
        if (reply.ending, reply.value) != (warden.Ending.exited, 0):
            lines = [line for line in shown_lines(log.text(), ("kernel.ptx",)) if "error" in line or "fatal" in line]
            return BuildFailure(tuple(lines[:LINES]) or (f"ptxas {reply.describe()} without a message",))
        size = os.fstat(product).st_size
        if size > MOST_CUBIN:
            return BuildFailure((f"the module has {size:,} bytes; at most {MOST_CUBIN:,} are taken",))
        return os.pread(product, size, 0), log.text()
    except OSError as error:
        raise CannotDecide(f"cannot build: {error.strerror}: {error.filename or tempfile.gettempdir()}") from error
    finally:
        os.close(product)
        log.close()
