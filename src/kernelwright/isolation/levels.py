"""Isolation levels: what this machine offers, what each role reached, and the demand for a lowest level."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from kernelwright.errors import CannotDecide, KernelwrightError
from kernelwright.isolation.native import program

ACCEPTED_VARIABLE = "KERNELWRIGHT_ISOLATION"  # the lowest level accepted where a caller names none
CEILING_VARIABLE = "KERNELWRIGHT_ISOLATION_CEILING"  # use no more than this level; it can only lower, and is for tests


class Level(StrEnum):
    """From weakest to strongest; each adds to the one before.

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


def weakest(levels: Iterable[Level]) -> Level:
    """The lowest of some levels; `full` where there are none."""
    return min(levels, key=list(Level).index, default=Level.full)


@dataclass(frozen=True)
class Isolation:
    """What the processes of a role really get on this machine. `missing` says what would raise the level."""

    role: str
    level: Level
    missing: str = ""


@dataclass(frozen=True)
class Capabilities:
    """What the kernel offers to this user."""

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

    @property
    def own_user(self) -> bool:
        """Whether a confined process is a user of its own, for whom limits can be counted."""
        return self.root or self.namespaces

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
    found, ceiling = _probe(), weakest((_ceiling, _from_environment(CEILING_VARIABLE)))
    return Capabilities(
        seccomp=found.seccomp and ceiling.at_least(Level.seccomp),
        landlock=found.landlock if ceiling.at_least(Level.landlock) else 0,
        namespaces=found.namespaces and ceiling.at_least(Level.full),
        private_proc=found.private_proc and ceiling.at_least(Level.full),
        root=found.root,
    )


@cache
def _probe() -> Capabilities:
    result = subprocess.run([str(program("warden")), "probe"], capture_output=True, text=True, check=False)
    try:
        return Capabilities(**json.loads(result.stdout))
    except (json.JSONDecodeError, TypeError) as error:
        raise CannotDecide(f"the sandbox probe did not answer: {result.stderr.strip() or result.stdout!r}") from error


def accepted() -> Level:
    """The lowest level that is accepted where a caller names none: full, unless the environment says less."""
    return _from_environment(ACCEPTED_VARIABLE)


def level_named(name: str) -> Level:
    try:
        return Level(name)
    except ValueError:
        raise KernelwrightError(f"unknown isolation level {name!r}: choose from {', '.join(Level)}") from None


def _from_environment(variable: str) -> Level:
    text = os.environ.get(variable, "")
    if text and text not in list(Level):
        raise KernelwrightError(f"{variable}={text}: choose from {', '.join(Level)}")
    return Level(text) if text else Level.full


def demand(wanted: Level, reached: Iterable[Isolation] | None = None) -> None:
    """Refuses, in one line, to go on below a level. Without `reached` this asks what the machine offers to any role."""
    if reached is None:
        found = capabilities()
        reached = (Isolation("a confined process", found.level, "; ".join(found.missing())),)
    short = [one for one in reached if not one.level.at_least(wanted)]
    if not short:
        return
    lowest = weakest(one.level for one in short)
    roles = ", ".join(f"{one.role} reaches {one.level}" for one in short)
    missing = "; ".join(dict.fromkeys(one.missing for one in short if one.missing))
    raise CannotDecide(
        f"isolation level {wanted} is required, and here {roles}{f' ({missing})' if missing else ''}; "
        f"to accept less: --isolation {lowest}, or isolation={str(lowest)!r} in Python"
    )
