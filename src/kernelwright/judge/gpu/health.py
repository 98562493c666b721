"""Whether a device is well, and whether CUDA and its tools work confined here: processes of our own try it."""

from __future__ import annotations

import hashlib
import time
from functools import cache
from pathlib import Path

from kernelwright.contracts.nvrtc import CompileError, compile_cuda, version
from kernelwright.errors import CannotDecide
from kernelwright.isolation import start
from kernelwright.isolation.levels import Isolation, Level
from kernelwright.isolation.roles import Role
from kernelwright.judge.gpu.client import END_SECONDS, Faulted, LauncherProcess, Tooling, reports_on_stdout
from kernelwright.paths import cache_dir, write_whole

# The judge's own kernels, compiled once for each kind of GPU and kept in the cache.

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


PATIENCE = 30.0  # the driver may need seconds to take down a kernel that does not end
WELL_SECONDS = 60.0


def device_is_well(helpers: bytes, index: int = 0, *, level: Level = Level.none) -> bool:
    """A process of our own computes something on every multiprocessor."""
    return not _complaint(helpers, index, level, None)


def launcher_isolation(helpers: bytes, index: int = 0) -> Isolation:
    """What a launcher reaches on this machine. To be asked once: a canary inside the sandbox has to compute."""
    return _reached(Role.launcher, helpers, index, None)


def torch_launcher_isolation(helpers: bytes, index: int = 0) -> Isolation:
    """What a launcher with torch reaches. To be asked where a candidate needs one: torch takes seconds to start."""
    return _reached(Role.torch_launcher, helpers, index, None)


def tool_isolation(helpers: bytes, index: int, tooling: Tooling, summary: str) -> Isolation:
    """What a launcher under a tool reaches; its report has to arrive whole, up to the words in `summary`."""
    return _reached(Role.tool_launcher, helpers, index, tooling, summary)


def _reached(role: Role, helpers: bytes, index: int, tooling: Tooling | None, summary: str = "") -> Isolation:
    (offered,) = start.isolation_of(role)
    if offered.level is Level.none:
        return offered
    why = _complaint(helpers, index, offered.level, tooling, summary, torch=role is Role.torch_launcher)
    if why and tooling is not None:  # some versions may not take a pipe for their report
        reports_on_stdout.add(tooling.path)
        why = _complaint(helpers, index, offered.level, tooling, summary)
    return Isolation(role, Level.none, f"confined, it does not work here: {why}") if why else offered


def _complaint(
    helpers: bytes, index: int, level: Level, tooling: Tooling | None, summary: str = "", *, torch: bool = False
) -> str:
    """Empty if a canary computed and, under a tool, its report arrived."""
    try:
        with LauncherProcess(helpers, index, level=level, tooling=tooling, torch=torch) as canary:
            if not canary.well(WELL_SECONDS):
                return "a canary kernel gave a wrong result"
            if tooling is None:
                return ""
            canary.end(END_SECONDS)
            if summary in canary.reported():
                return ""
            last = canary.log.text().strip().splitlines()[-1:] or ["it said nothing"]
            return f"no report came from {tooling.path}: {last[0]}"
    except (Faulted, CannotDecide) as error:
        return str(error)


def wait_until_well(helpers: bytes, index: int = 0, patience: float = PATIENCE) -> None:
    """Returns when the device is well; if it does not get well, nothing can be judged on it."""
    until = time.monotonic() + patience
    while not device_is_well(helpers, index):
        if time.monotonic() > until:
            raise CannotDecide(f"GPU {index} no longer computes; it may need a reset (nvidia-smi --gpu-reset)")
        time.sleep(0.5)
