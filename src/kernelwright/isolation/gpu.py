"""The sandbox around a launcher: device code cannot leave the GPU, and if it could it would find nothing here.

The launcher sees the system's libraries, Python, our package and the device files of the GPU; it has no network, no
other processes, no files of the user's, and is another user. Landlock would take away the driver's device calls, and
the builder's filter the socket without which the driver does not start, so neither has a place here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kernelwright.isolation import sandbox
from kernelwright.isolation.native import program

LIFE_SECONDS = 24 * 3600
_IMPORTED = ("kernelwright", "cuda.bindings", "cuda.pathfinder")
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH")


def possible() -> bool:
    """Whether this machine offers what the sandbox needs. A canary inside it has to show that CUDA works there."""
    found = sandbox.capabilities()
    return found.namespaces and found.private_proc


def confined(command: Sequence[str], channel: str, log: int) -> list[str]:
    """The command inside the sandbox; of our descriptors it has the channel alone."""
    found = sandbox.capabilities()
    mounts = [part for path in _visible() for part in ("--read-only", str(path))]
    return [
        *(str(program("warden")), "run", *mounts, "--namespaces", "--procfs", "--dev-null"),
        *(["--uid", str(sandbox.somebody_else())] if found.root else []),
        *("--keep", channel, "--log", str(log), "--file-size", str(1 << 20)),
        *("--milliseconds", str(LIFE_SECONDS * 1000), "--", *command),
    ]


def environment() -> dict[str, str]:
    """Where Python and the driver find their libraries, and nothing else of ours."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return sandbox.clean_environment(**kept, PYTHONPATH=os.pathsep.join(_packages()))


def _visible() -> list[str]:
    folders = {sys.prefix, sys.base_prefix, *_packages()}
    folders |= {entry for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry}
    devices = [str(path) for path in sorted(Path("/dev").glob("nvidia*"))]
    return [*sandbox.SYSTEM, *sorted(map(_absolute, folders)), *devices]


@cache
def _packages() -> tuple[str, ...]:
    """Where the packages lie that a launcher imports. The rest of sys.path, a user's own folder or even `/`, is not its
    business."""
    found: dict[str, None] = {}
    for name in _IMPORTED:
        with suppress(ModuleNotFoundError):
            spec = find_spec(name)
            for place in (spec.submodule_search_locations or ()) if spec else ():
                found[str(Path(place).resolve().parents[name.count(".")])] = None
    return tuple(found)


def _absolute(folder: str) -> str:
    return str(Path(folder).absolute())
