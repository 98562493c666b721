"""Starts processes by the table of roles: the one place where it is decided what a process gets.

A process is *run* to its end (a compiler), *timed* by the warden (a runner), or *serves* requests on a channel
(a launcher, the oracle). A grant adds what one process needs beside what its role gives: a file, memory, a GPU.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kernelwright.devices.compiler import compiler
from kernelwright.isolation.gpu_access import (
    IMPORTED,
    WITH_TORCH,
    GpuAccess,
    cuda_files,
    gpu_variables,
    imported_folders,
    tool_files,
)
from kernelwright.isolation.levels import Isolation, Level, capabilities
from kernelwright.isolation.log import DrainedLog, Log, ToolReport
from kernelwright.isolation.native import program
from kernelwright.isolation.roles import ROLES, Devices, Filter, Proc, Role, Rules, Variables, VisibleFiles
from kernelwright.isolation.warden import Reply, RunningProgram, WardedProcess, run_to_end

SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc/ld.so.cache", "/etc/alternatives")
LOADER_CACHE = "/etc/ld.so.cache"
VECTOR_MATHS = "libmvec.so.1"  # beside libm, and needed only by a candidate whose loops call it
UNUSED_USERS = (1 << 30, 1 << 30)  # the first of the users that no system gives out, and how many there are
FEWER_USERS = (20_000, 40_000)  # inside a container that knows few users
RANDOM = "/dev/urandom"
SOURCE, SCRATCH = "/source", "/tmp"
SCRATCH_BYTES = 1 << 30  # of a tool: ncu keeps a report there
MODEST = 1 << 30  # a process with no more memory than this beside its tensors is not to blame when the machine's ends
LIFE_SECONDS = 24 * 3600
CHANNEL = "{channel}"  # stands for the number of the channel's descriptor in a command

_FILTERS = {
    Filter.builder: ("--builder-filter",),
    Filter.one_process: ("--builder-filter", "--one-process"),
    Filter.driver: ("--driver-filter",),
}


@dataclass(frozen=True)
class Grant:
    """What one process gets beside what its role gives.

    `folder` is shown as /source, and holds the scratch where there are no namespaces. `address_space` and `resident`
    are limits of memory, 0 for none; `tensors` are bytes of the arena, which are not counted against a process.
    `writable` are descriptors that it has to be able to open again by name.
    """

    visible: tuple[str | Path, ...] = ()
    folder: Path | None = None
    scratch_bytes: int = SCRATCH_BYTES
    address_space: int = 0
    resident: int = 0
    tensors: int = 0
    cpus: tuple[int, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    gpu: GpuAccess | None = None
    tool: str = ""
    writable: tuple[int, ...] = ()


NOTHING_MORE = Grant()


def level_of(role: Role) -> Level:
    """The level that processes of a role reach here, as far as the kernel can tell."""
    found, rules = capabilities(), ROLES[role]
    if rules.trusted:
        return Level.none
    if rules.filter is Filter.driver:  # Landlock takes away the driver's device calls: all, or nothing
        return Level.full if found.level is Level.full and found.private_proc else Level.none
    return found.level


def isolation_of(*roles: Role) -> tuple[Isolation, ...]:
    missing = "; ".join(capabilities().missing())
    return tuple(Isolation(role, level_of(role), missing) for role in roles)


# --- the three ways to start -----------------------------------------------------------------------------------------


def run(
    role: Role, command: Sequence[str], grant: Grant, seconds: float, log: Log, output: tuple[int, str] | None = None
) -> Reply:
    """Runs a program to its end; `output` names the file it makes and the descriptor to copy it to."""
    return run_to_end(list(command), _options(role, grant), environment(role, grant), seconds, log, output)


def running(
    role: Role, command: Sequence[str], grant: Grant, seconds: float, log: Log, output: tuple[int, str] | None = None
) -> RunningProgram:
    """As `run`, without waiting for its end."""
    return RunningProgram(list(command), _options(role, grant), environment(role, grant), seconds, log, output)


def timed(
    role: Role,
    command: Sequence[str],
    grant: Grant,
    keep: Iterable[int],
    start_seconds: float,
    log: DrainedLog | None = None,
) -> WardedProcess:
    """A process that is stopped except while a trial of it is under way."""
    return WardedProcess(list(command), _options(role, grant), keep, environment(role, grant), start_seconds, log)


def serving(
    role: Role,
    command: Sequence[str],
    grant: Grant,
    channel: int,
    log: Log | ToolReport | None = None,
    *,
    level: Level | None = None,
    seconds: float = LIFE_SECONDS,
) -> subprocess.Popen[bytes]:
    """A process that answers on a channel, whose number stands in its command as {channel}.

    `level` none starts a confined role without confinement, for a machine on which a canary did not work. Without a
    log its words go where ours go.
    """
    parts = [part.replace(CHANNEL, str(channel)) for part in command]
    kept = [channel, *grant.writable]
    confined = not ROLES[role].trusted and (level or level_of(role)) is not Level.none
    if confined:
        assert log is not None, "what a confined process says is bounded"
        options = _options(role, grant)
        parts = [
            *(str(program("warden")), "run", *options, "--keep", ",".join(map(str, kept))),
            *("--log", str(log.fd), "--milliseconds", str(int(seconds * 1000)), "--", *parts),
        ]
    return subprocess.Popen(
        parts,
        pass_fds=[*kept, *([log.fd] if log else [])],
        stdin=subprocess.PIPE if log else subprocess.DEVNULL,  # a warden takes its closing for the end of its caller
        stdout=log.fd if log else None,
        stderr=log.fd if log else None,
        env=environment(role, grant, confined=confined),
        start_new_session=True,  # Ctrl-C reaches the controller alone, which ends the others in order
    )


# --- what they get ---------------------------------------------------------------------------------------------------


def environment(role: Role, grant: Grant = NOTHING_MORE, *, confined: bool = True) -> dict[str, str]:
    """No secrets, and nothing that steers a compiler or a loader; a trusted role inherits ours."""
    rules = ROLES[role]
    if rules.variables is Variables.judge:
        return {**os.environ, **grant.variables}
    # A name, because torch 2.11 asks for one when it is imported, and no system knows the user that a sandbox has.
    found = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/", "LOGNAME": "sandbox"}
    if rules.scratch:
        place = scratch_directory(grant.folder) if confined else tempfile.gettempdir()
        found |= {"HOME": place, "TMPDIR": place}
    if grant.gpu is not None:
        found |= gpu_variables(grant.gpu, WITH_TORCH if rules.files is VisibleFiles.cuda_packages else IMPORTED)
    return {**found, **grant.variables}


def source_directory(folder: Path) -> str:
    """Where a confined process finds its folder."""
    return SOURCE if capabilities().namespaces else str(folder)


def scratch_directory(folder: Path | None) -> str:
    """Where a confined process may write: its own file system in memory, or a folder made for it."""
    return SCRATCH if capabilities().namespaces or folder is None else str(folder / "scratch")


def make_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Writes the files that a process of another user shall read, and makes its scratch where it needs one."""
    folder.chmod(0o755)
    for name, text in files.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
    if not capabilities().namespaces:
        scratch = folder / "scratch"
        scratch.mkdir()
        scratch.chmod(0o777)


def own_filter(role: Role) -> str:
    """The filter that a runner puts on itself, between mapping the arena and loading the candidate."""
    if not capabilities().seccomp:
        return "none"
    return "sanitizer" if ROLES[role].filter is Filter.sanitizer else "runner"


def _options(role: Role, grant: Grant) -> list[str]:
    rules = ROLES[role]
    options = ["--cpus", ",".join(map(str, grant.cpus))] if grant.cpus else []
    if rules.trusted:
        return options
    options += [part for path in _visible(rules, grant) for part in ("--read-only", str(path))]
    options += _boundaries(rules, grant)
    if rules.filter in _FILTERS and capabilities().seccomp:
        options += _FILTERS[rules.filter]
    if rules.scratch:
        options += ["--scratch", scratch_directory(grant.folder), "--scratch-bytes", str(grant.scratch_bytes)]
    return [*options, *_limits(rules, grant)]


def _boundaries(rules: Rules, grant: Grant) -> list[str]:
    found = capabilities()
    options = ["--namespaces"] if found.namespaces else []
    if found.landlock and rules.filter is not Filter.driver:
        options.append("--landlock")
    if rules.proc is Proc.private and found.private_proc:
        options.append("--procfs")
    if rules.devices is not Devices.none:
        options.append("--dev-null")
    if found.root:
        user = own_user()
        options += ["--uid", str(user)]
        for descriptor in grant.writable:
            os.fchown(descriptor, user, -1)
    return options


def _limits(rules: Rules, grant: Grant) -> list[str]:
    file_bytes = rules.file_bytes or grant.scratch_bytes
    options = ["--modest", str(grant.tensors + MODEST), "--file-size", str(file_bytes)]
    if rules.processes and capabilities().own_user:  # else the limit would count the user's other processes
        options += ["--threads", str(rules.processes)]
    if rules.cpu_seconds:
        options += ["--cpu-seconds", str(rules.cpu_seconds)]
    if grant.address_space:
        options += ["--address-space", str(grant.address_space)]
    if grant.resident:
        options += ["--resident", str(grant.resident)]
    return options


def _visible(rules: Rules, grant: Grant) -> list[str | Path]:
    found: list[str | Path] = []
    if rules.files is VisibleFiles.run_time:
        found += runtime_libraries(sanitized=rules.filter is Filter.sanitizer)
    else:
        found += SYSTEM
    if rules.files is VisibleFiles.toolchain:
        found += _toolchain()
    if rules.files in (VisibleFiles.cuda, VisibleFiles.cuda_tools, VisibleFiles.cuda_packages):
        found += cuda_files()
    if rules.files is VisibleFiles.cuda_packages:
        found += imported_folders(WITH_TORCH)
    if rules.files is VisibleFiles.cuda_tools and grant.tool:
        found += tool_files(grant.tool)
    if grant.folder is not None:
        found.append(f"{grant.folder}\t{SOURCE}")
    nodes: tuple[str, ...] = ()
    if grant.gpu and rules.devices in (Devices.own_gpu, Devices.gpu_random):
        nodes = grant.gpu.nodes
    if rules.devices in (Devices.random, Devices.gpu_random):
        nodes = (*nodes, RANDOM)
    return [*found, *grant.visible, *nodes]


@cache
def runtime_libraries(*, sanitized: bool) -> tuple[str, ...]:
    """The files that a candidate is linked with: C++, OpenMP, the loader, and nothing else of the system.

    A candidate that sees all of the system's libraries can load a vendor's and call it a kernel. The list is read off
    programs of our own, never off a candidate's.
    """
    programs = [program("runner-sanitized" if sanitized else "runner"), program("libraries.so")]
    found: dict[str, None] = {}
    for path in programs:
        try:
            listed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
        except OSError:  # a system without ldd
            return SYSTEM
        found |= dict.fromkeys(re.findall(r"(/\S+) \(0x", listed))
    if not found:
        return SYSTEM
    beside = [str(Path(path).with_name(VECTOR_MATHS)) for path in found if Path(path).name.startswith("libm.so")]
    return (*found, *beside, LOADER_CACHE)


def _toolchain() -> list[str]:
    """Where a compiler from outside the system's directories (conda, /opt) has its parts."""
    driver = Path(compiler()).resolve()
    if str(driver).startswith(tuple(f"{path}/" for path in SYSTEM)):
        return []
    prefix = driver.parent.parent
    parts = [prefix / name for name in ("bin", "lib", "lib64", "libexec", "include")]
    return [str(path) for path in (*parts, *prefix.glob(f"{platform.machine()}-*")) if path.is_dir()]


# --- Python, for a process that imports packages ---------------------------------------------------------------------


def interpreter_folders() -> tuple[Path, ...]:
    """What Python needs of where it is installed, which may be a folder with much else in it."""
    prefix = Path(sys.base_prefix).resolve()
    return tuple(path for name in ("bin", "lib", "lib64", "include") if (path := prefix / name).is_dir())


@cache
def package_folders() -> tuple[str, ...]:
    """The folders of installed packages. The rest of sys.path, a user's own folder or even `/`, is not its business."""
    installed = {str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib")}
    names = ("site-packages", "dist-packages")
    found = [entry for entry in sys.path if Path(entry).name in names or str(Path(entry).resolve()) in installed]
    return tuple(dict.fromkeys(str(Path(entry).absolute()) for entry in found if Path(entry).is_dir()))


# --- users -----------------------------------------------------------------------------------------------------------

_sandboxes = itertools.count()


def own_user() -> int:
    """A user for one process: limits are counted by user, so a shared one would let a candidate starve the others."""
    first, count = UNUSED_USERS if _known_user(sum(UNUSED_USERS) - 1) else FEWER_USERS
    return first + (os.getpid() * 256 + next(_sandboxes) % 256) % count


@cache
def _known_user(uid: int) -> bool:
    """Whether this user namespace, a container's perhaps, has such a user and such a group."""
    for name in ("uid_map", "gid_map"):
        ranges = [tuple(map(int, line.split())) for line in Path("/proc/self", name).read_text().splitlines()]
        if not any(inside <= uid < inside + count for inside, _, count in ranges):
            return False
    return True


def protect_this_process() -> None:
    """Makes a trusted process unreadable to others of the same user."""
    pr_set_dumpable = 4
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_dumpable, 0, 0, 0, 0)
