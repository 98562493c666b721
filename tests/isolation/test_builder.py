"""What a process in the builder's sandbox may not do: leave it by way of new namespaces, or multiply."""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
from pathlib import Path

import pytest

from kernelwright.isolation import start, warden
from kernelwright.isolation.levels import capabilities
from kernelwright.isolation.log import Log
from kernelwright.isolation.roles import ROLES, Role

HOSTILE = """
import ctypes, json, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
clone, calls = json.loads(sys.argv[2])
CLONE_NEWNS, CLONE_NEWUSER, SIGCHLD = 0x00020000, 0x10000000, 17

def error(number, *arguments):
    made = libc.syscall(number, *arguments)
    if made == 0 and number == clone:
        os._exit(0)
    return ctypes.get_errno() if made < 0 else 0

said = {name: error(number, 0, 0, 0, 0, 0) for name, number in calls.items()}
said["clone"] = error(clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0)
said["honest"] = error(clone, SIGCHLD, 0, 0, 0, 0)
started = 0
try:
    while started < 300:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        started += 1
except OSError:
    pass
said["started"] = started
open(sys.argv[1], "w").write(json.dumps(said))
"""
X86 = platform.machine() == "x86_64"
CLONE, SHMGET = (56, 29) if X86 else (220, 194)
MOUNTS = {"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433}
CALLS = {**MOUNTS, "mount_setattr": 442, "open_tree_attr": 467, "clone3": 435, "shmget": SHMGET}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What became of each attempt: an error's number, or how many processes there were."""
    folder = tmp_path_factory.mktemp("hostile")
    start.make_folder(folder, {"hostile.py": HOSTILE})
    output = f"{start.scratch_directory(folder)}/said.json"
    product, log = os.memfd_create("said"), Log()
    script = f"{start.source_directory(folder)}/hostile.py"
    try:
        prefix = Path(sys.base_prefix).resolve()
        reply = start.run(
            Role.builder,
            [str(Path(sys.executable).resolve()), "-I", "-S", script, output, json.dumps([CLONE, CALLS])],
            start.Grant(visible=(prefix,), folder=folder, scratch_bytes=1 << 20, address_space=1 << 30),
            60.0,
            log,
            (product, output),
        )
        assert (reply.ending, reply.value) == (warden.Ending.exited, 0), log.text()
        found: dict[str, int] = json.loads(os.pread(product, 1 << 16, 0))
    finally:
        os.close(product)
        log.close()
    return found


@pytest.mark.parametrize("call", ["clone", *sorted(CALLS)])
def test_no_way_leads_to_mounts_and_users_of_its_own(said: dict[str, int], call: str) -> None:
    assert said[call] == (errno.ENOSYS if call == "clone3" else errno.EPERM)


def test_processes_are_allowed_but_few(said: dict[str, int]) -> None:
    assert said["honest"] == 0
    if capabilities().own_user:
        assert 10 <= said["started"] < ROLES[Role.builder].processes
