"""How confined a process is: the levels, what this machine offers, and the warden's options for each purpose."""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from kernelwright.devices.compiler import compiler
from kernelwright.errors import CannotDecide
from kernelwright.isolation.native import program

SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc/ld.so.cache", "/etc/alternatives")
LOADER_CACHE = "/etc/ld.so.cache"
VECTOR_MATHS = "libmvec.so.1"  # beside libm, and needed only by a candidate whose loops call it
NOBODIES = (1 << 30, 1 << 30)  # the first of the users that nobody is, and how many there are
FEWER_NOBODIES = (20_000, 40_000)  # inside a container that knows few users
SOURCE = "/source"
MOST_THREADS = 256
MOST_PROCESSES = 64  # of a compiler, threads included; with its assembler and linker it has a handful
MODEST = 1 << 30  # whoever had no more memory than this beside its tensors is not to blame when the machine's ends


class Level(StrEnum):
    """From weakest to strongest. Each adds to the one before.

    `seccomp` limits system calls; `landlock` hides files outside the toolchain; `full` adds an empty root with
    its own processes, network and users.
    """

    none = "none"
    seccomp = "seccomp"
    landlock = "landlock"
    full = "full"

    def at_least(self, other: Level) -> bool:
        order = list(Level)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class Capabilities:
    seccomp: bool
    landlock: int
    namespaces: bool
    private_proc: bool
    root: bool

    @property
    def level(self) -> Level:
        if not self.seccomp:
            return Level.none
        if self.namespaces:
            return Level.full
        return Level.landlock if self.landlock else Level.seccomp

    def missing(self) -> list[str]:
        """What would raise the level, and how to get it."""
        advice = []
        if not self.seccomp:
            advice.append("seccomp filters: needs a kernel built with CONFIG_SECCOMP_FILTER")
        if not self.landlock:
            advice.append("Landlock: needs Linux 5.13 or newer with landlock among the kernel's security modules")
        if not self.namespaces:
            advice.append(
                "namespaces: run as root, or allow them for users "
                "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
            )
        return advice


_ceiling = Level.full


def limit(level: Level) -> None:
    """Uses no more than this level from now on, to see what a weaker machine would give."""
    global _ceiling
    _ceiling = level


def capabilities() -> Capabilities:
    found = _probe()
    return Capabilities(
        seccomp=found.seccomp and _ceiling.at_least(Level.seccomp),
        landlock=found.landlock if _ceiling.at_least(Level.landlock) else 0,
        namespaces=found.namespaces and _ceiling.at_least(Level.full),
        private_proc=found.private_proc and _ceiling.at_least(Level.full),
        root=found.root,
    )


@cache
def _probe() -> Capabilities:
    result = subprocess.run([str(program("warden")), "probe"], capture_output=True, text=True, check=False)
    try:
        return Capabilities(**json.loads(result.stdout))
    except (json.JSONDecodeError, TypeError) as error:
        raise CannotDecide(f"the sandbox probe did not answer: {result.stderr.strip() or result.stdout!r}") from error


def require(wanted: Level) -> None:
    """Refuses to go on below a level."""
    reached = capabilities().level
    if not reached.at_least(wanted):
        advice = "; ".join(capabilities().missing())
        raise CannotDecide(f"sandbox level {wanted} is required and this machine offers {reached}: {advice}")


@cache
def runtime_libraries(*, sanitized: bool) -> tuple[str, ...]:
    """The files that a candidate is linked with: C++, OpenMP, the loader, and nothing else of the system.

    Whoever sees all of the system's libraries can load a vendor's and call it a kernel. The list is read off programs
    of our own, never off a candidate's.
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


def runner_options(
    library: Path, tensors: int, address_space: int, cpus: tuple[int, ...], *, sanitized: bool
) -> list[str]:
    """For a process that runs a candidate: it sees the language's run time and its own library, and nothing else."""
    options = ["--cpus", ",".join(map(str, cpus))] if cpus else []
    options += _common([*runtime_libraries(sanitized=sanitized), str(library)], procfs=sanitized)
    options += ["--file-size", str(1 << 20), "--modest", str(tensors + MODEST), *_at_most(MOST_THREADS)]
    # The sanitizers reserve terabytes of address space; what is used of it is watched instead.
    return [*options, "--resident" if sanitized else "--address-space", str(address_space)]


def builder_options(folder: Path, scratch_bytes: int, address_space: int) -> list[str]:
    """For a compiler reading hostile text: it sees the toolchain and the folder with the source and our headers."""
    return [
        *_common([*SYSTEM, *_toolchain(), f"{folder}\t{SOURCE}"], procfs=False),
        *("--builder-filter", "--dev-null", "--modest", str(MODEST), *_at_most(MOST_PROCESSES)),
        *("--scratch", scratch_directory(folder), "--scratch-bytes", str(scratch_bytes)),
        *("--address-space", str(address_space), "--file-size", str(scratch_bytes), "--cpu-seconds", "120"),
    ]


def plan_options(folder: Path, scratch_bytes: int, address_space: int) -> list[str]:
    """For Python that becomes data: as a compiler, but with no other process, since limits of memory hold for each."""
    return [*builder_options(folder, scratch_bytes, address_space), "--one-process"]


def _at_most(threads: int) -> list[str]:
    """Where a sandbox has a user of its own; elsewhere the limit would count the user's other processes."""
    return ["--threads", str(threads)] if capabilities().root or capabilities().namespaces else []


def _toolchain() -> list[str]:
    """Where a compiler from outside the system's directories (conda, /opt) has its parts."""
    driver = Path(compiler()).resolve()
    if str(driver).startswith(tuple(f"{path}/" for path in SYSTEM)):
        return []
    prefix = driver.parent.parent
    parts = [prefix / name for name in ("bin", "lib", "lib64", "libexec", "include")]
    return [str(path) for path in (*parts, *prefix.glob(f"{platform.machine()}-*")) if path.is_dir()]


def source_directory(folder: Path) -> str:
    """Where the confined compiler finds the folder with the source."""
    return SOURCE if capabilities().namespaces else str(folder)


def scratch_directory(folder: Path) -> str:
    """Where the confined compiler may write: its own memory file system, or a folder made for it."""
    return "/tmp" if capabilities().namespaces else str(folder / "scratch")


def _common(visible: list[str], *, procfs: bool) -> list[str]:
    found = capabilities()
    options = [part for path in visible for part in ("--read-only", path)]
    if found.namespaces:
        options.append("--namespaces")
    if found.landlock:
        options.append("--landlock")
    if found.root:
        options += ["--uid", str(somebody_else())]
    if procfs and found.private_proc:
        options.append("--procfs")
    return options


_sandboxes = itertools.count()


def somebody_else() -> int:
    """A user for one sandbox: limits are counted by user, so a shared one would let a candidate starve the others."""
    first, count = NOBODIES if _known_user(sum(NOBODIES) - 1) else FEWER_NOBODIES
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
    import ctypes

    pr_set_dumpable = 4
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_dumpable, 0, 0, 0, 0)


def clean_environment(**extra: str) -> dict[str, str]:
    """What a confined process inherits: no secrets, nothing that steers a compiler or a loader."""
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/", **extra}


def trusted_environment(**extra: str) -> dict[str, str]:
    return {**os.environ, **extra}
