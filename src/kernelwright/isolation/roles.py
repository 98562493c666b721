"""The table of roles: what a process of each role may reach. `start` starts processes by it, and nothing else does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Role(StrEnum):
    builder = "builder"
    plan_evaluator = "plan evaluator"
    recorder = "recorder"
    torch_recorder = "recorder with torch"
    interpreter = "interpreter"
    tracer = "tracer"
    runner = "runner"
    sanitized_runner = "sanitized runner"
    launcher = "launcher"
    tool_launcher = "launcher under a tool"
    torch_launcher = "launcher with torch"
    baseline = "baseline"
    oracle = "oracle"


class Filter(StrEnum):
    """System calls: what the filter denies, or for the runner's the little that it allows."""

    none = "none"
    builder = "denies what no compiler needs"
    one_process = "as the builder's, and no other process"
    driver = "denies what no CUDA program needs"
    runner = "allows what a kernel needs"
    sanitizer = "as the runner's, and what the sanitizers need"


class VisibleFiles(StrEnum):
    """What is mounted, read-only. Everything else does not exist for the process."""

    all = "all"
    toolchain = "system, toolchain, /source"
    python = "system, Python, /source"
    packages = "system, Python, its packages, our package, /source"
    run_time = "the language's run time, its library"
    cuda = "system, Python, our package, CUDA"
    cuda_tools = "as the launcher's, and the tools"
    cuda_packages = "as the launcher's, and installed packages"


class Devices(StrEnum):
    all = "all"
    null = "/dev/null"
    random = "/dev/null, /dev/urandom"
    none = "none"
    own_gpu = "/dev/null, its own GPU"
    gpu_random = "/dev/null, /dev/urandom, its own GPU"


class Proc(StrEnum):
    host = "the machine's"
    none = "none"
    private = "its own"


class User(StrEnum):
    judge = "the judge's"
    own = "one of its own"


class Variables(StrEnum):
    judge = "the judge's"
    clean = "clean"


@dataclass(frozen=True)
class Rules:
    """A row of the table. `processes` and `file_bytes` are limits, 0 for none; `scratch` is a file system in memory at
    /tmp that ends with the process. A role whose files are all is trusted: it is not confined."""

    filter: Filter
    files: VisibleFiles
    devices: Devices
    proc: Proc
    user: User = User.own
    variables: Variables = Variables.clean
    processes: int = 0  # threads included
    file_bytes: int = 1 << 20
    cpu_seconds: int = 0
    scratch: bool = False

    @property
    def trusted(self) -> bool:
        return self.files is VisibleFiles.all


_TRUSTED = Rules(
    Filter.none, VisibleFiles.all, Devices.all, Proc.host, User.judge, Variables.judge, processes=0, file_bytes=0
)
_KERNEL = Rules(Filter.runner, VisibleFiles.run_time, Devices.none, Proc.none, processes=256)

# They import torch, for which they see the installed packages.
_WITH_TORCH = Rules(
    Filter.one_process,
    VisibleFiles.packages,
    Devices.random,  # torch does not start without it
    Proc.none,
    processes=64,
    file_bytes=0,
    cpu_seconds=300,
    scratch=True,
)

ROLES: MappingProxyType[Role, Rules] = MappingProxyType(
    {
        Role.builder: Rules(
            Filter.builder,
            VisibleFiles.toolchain,
            Devices.null,
            Proc.none,
            processes=64,  # with its assembler and linker a compiler has a handful
            file_bytes=0,  # its scratch is the limit
            cpu_seconds=120,
            scratch=True,
        ),
        # Limits of memory hold for each process, so that what needs one process gets no other.
        Role.plan_evaluator: Rules(
            Filter.one_process,
            VisibleFiles.python,
            Devices.null,
            Proc.none,
            processes=64,
            file_bytes=0,
            cpu_seconds=120,
            scratch=True,
        ),
        Role.recorder: Rules(
            Filter.one_process,
            VisibleFiles.python,
            Devices.null,
            Proc.none,
            processes=64,
            file_bytes=0,
            cpu_seconds=120,
            scratch=True,
        ),
        Role.tracer: _WITH_TORCH,
        Role.torch_recorder: _WITH_TORCH,
        Role.interpreter: _WITH_TORCH,
        Role.runner: _KERNEL,
        Role.sanitized_runner: Rules(
            Filter.sanitizer,
            VisibleFiles.run_time,
            Devices.none,
            Proc.private,  # the sanitizers read their own maps
            processes=256,
        ),
        # Landlock would take away the driver's device calls, and the builder's filter the sockets without which the
        # driver does not start.
        Role.launcher: Rules(Filter.driver, VisibleFiles.cuda, Devices.own_gpu, Proc.private, processes=512),
        Role.tool_launcher: Rules(
            Filter.driver,
            VisibleFiles.cuda_tools,
            Devices.own_gpu,
            Proc.private,
            processes=4096,
            file_bytes=0,  # its scratch is the limit
            scratch=True,
        ),
        # As the launcher. Torch does not start without random numbers, and wants a folder for what it keeps.
        Role.torch_launcher: Rules(
            Filter.driver,
            VisibleFiles.cuda_packages,
            Devices.gpu_random,
            Proc.private,
            processes=512,
            file_bytes=0,
            scratch=True,
        ),
        Role.baseline: _TRUSTED,
        Role.oracle: _TRUSTED,
    }
)
