"""What a process of each role cannot reach: the key, files, other processes, the network, GPUs, our variables."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts.host_build import Built, build
from kernelwright.isolation import start
from kernelwright.isolation.gpu_access import GpuAccess
from kernelwright.isolation.levels import Level, capabilities
from kernelwright.isolation.log import Log, ToolReport
from kernelwright.isolation.roles import ROLES, Role
from kernelwright.isolation.warden import Ending
from kernelwright.judge.cpu.runner import start_runner
from kernelwright.judge.keys import judge_key
from kernelwright.paths import state_dir
from kernelwright.tasks.model import Signature

needs_full = pytest.mark.skipif(capabilities().level is not Level.full, reason="this machine does not reach full")
WITH_TORCH = (Role.tracer, Role.torch_recorder, Role.interpreter)
INTERPRETED = (
    *(Role.builder, Role.plan_evaluator, Role.recorder, *WITH_TORCH),
    *(Role.launcher, Role.tool_launcher, Role.torch_launcher),
)
NATIVE = (Role.runner, Role.sanitized_runner)
PROBE = """
import json, os, socket, sys

key, public, port = json.loads(sys.argv[1])

def tried(action):
    try:
        action()
    except OSError as error:
        return error.strerror
    return "done"

def listed(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []

def connect():
    with socket.socket() as one:
        one.settimeout(2)
        one.connect(("127.0.0.1", port))

def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

print(json.dumps({
    "key": tried(lambda: open(key, "rb")),
    "public": tried(lambda: open(public)),
    "connect": tried(connect),
    "fork": tried(fork),
    "gpu": sorted(name for name in listed("/dev") if name.startswith("nvidia")),
    "processes": [name for name in listed("/proc") if name.isdigit()],
    "uid": os.getuid(),
    "kill": tried(lambda: os.kill(int(sys.argv[2]), 0)),
    "variables": sorted(os.environ),
    "root": tried(lambda: open("/written", "w")),
    "scratch": tried(lambda: open("/tmp/written", "w")),
}))
"""
NATIVE_PROBE = r"""
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
static void say(const char* what, long got) { fprintf(stderr, "%s %s\n", what, got < 0 ? "refused" : "done"); }
void kernel() {
  say("key", open("KEY", O_RDONLY));
  say("public", open("PUBLIC", O_RDONLY));
  say("gpu", open("/dev/nvidiactl", O_RDWR));
  say("proc", open("/proc/PID/status", O_RDONLY));
  say("connect", socket(AF_INET, SOCK_STREAM, 0));
  say("fork", fork());
}
"""


@pytest.fixture(scope="module")
def listening() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The judge's key, and a file that every user of the machine may read."""
    judge_key()
    public = tmp_path_factory.mktemp("public") / "public"
    public.write_text("anybody may read this")
    public.chmod(0o644)
    return state_dir() / "judge.key", public


def probed(role: Role, folder: Path, secrets: tuple[Path, Path], port: int) -> dict[str, object]:
    start.make_folder(folder, {"probe.py": PROBE})
    python, prefix = Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
    gpu = GpuAccess(("/dev/nvidiactl",), "GPU-none") if "launcher" in role else None
    grant = start.Grant(visible=(prefix,), folder=folder, gpu=gpu)
    about = json.dumps([*map(str, secrets), port])
    log = Log()
    try:
        command = [str(python), "-I", "-S", f"{start.source_directory(folder)}/probe.py", about, str(os.getpid())]
        reply = start.run(role, command, grant, 60.0, log)
        assert (reply.ending, reply.value) == (Ending.exited, 0), log.text()
        found: dict[str, object] = json.loads(log.text())
    finally:
        log.close()
    return found


@needs_full
@pytest.mark.parametrize("role", INTERPRETED)
def test_a_confined_process_reaches_nothing_of_ours(
    role: Role, secrets: tuple[Path, Path], listening: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert secrets[0].is_file()
    monkeypatch.setenv("A_SECRET", "of the judge's user")
    found = probed(role, tmp_path, secrets, listening)
    assert "done" not in (found["key"], found["public"])
    assert found["connect"] != "done" and found["kill"] != "done"
    assert found["root"] != "done"
    assert (found["scratch"] == "done") == ROLES[role].scratch
    assert found["gpu"] == []  # the nodes that it is granted do not exist on this machine, and no others are shown
    assert len(found["processes"]) <= 2  # type: ignore[arg-type]
    assert found["uid"] != os.getuid() or not capabilities().root
    assert "A_SECRET" not in found["variables"]  # type: ignore[operator]
    assert (found["fork"] == "done") == (role not in (Role.plan_evaluator, Role.recorder, *WITH_TORCH))


@needs_full
@pytest.mark.parametrize("role", NATIVE)
def test_a_runner_reaches_nothing_of_ours(role: Role, secrets: tuple[Path, Path]) -> None:
    source = NATIVE_PROBE.replace("KEY", str(secrets[0])).replace("PUBLIC", str(secrets[1]))
    sanitized = role is Role.sanitized_runner
    made = build(Candidate("cpp", source.replace("PID", str(os.getpid()))), Signature(()), sanitized=sanitized)
    assert isinstance(made, Built), made
    with start_runner(made.library, Signature(()), [], 1, (), sanitized=sanitized) as runner:
        assert runner.ready().ending is Ending.ok, runner.log.text()
        assert runner.trial("r", 20.0).ending is Ending.ok
        said = re.findall(r"^(\w+) (refused|done)$", runner.log.text(), re.MULTILINE)
    assert dict(said) == dict.fromkeys(("key", "public", "gpu", "proc", "connect", "fork"), "refused")


TOOL = """#!/bin/sh
# Plays a tool of the CUDA toolkit: a script that writes a report and runs the rest of its arguments.
while [ "$1" != "--log-file" ]; do shift; done
shift; report=$1; shift
"$@"; code=$?
echo "========= ERROR SUMMARY: 0 errors" > "$report"
exit $code
"""


@needs_full
def test_a_tool_reports_on_a_pipe_and_finds_a_private_scratch(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "tool"
    tool.write_text(TOOL)
    for path, mode in ((tool, 0o755), (tmp_path / "bin", 0o755), (tmp_path, 0o755)):
        path.chmod(mode)
    report, log = ToolReport(), Log()
    ours, theirs = socket.socketpair()
    inside = "echo $HOME $TMPDIR; touch $TMPDIR/x && echo written; echo said >&$1; id -u"
    command = ["/usr/bin/env", str(tool), "--log-file", report.path, "/bin/bash", "-c", inside, "sh", start.CHANNEL]
    grant = start.Grant(tool=str(tool), writable=(report.fd,), gpu=GpuAccess((), "GPU-none"))
    ours.settimeout(10)
    with ours, theirs:
        process = start.serving(Role.tool_launcher, command, grant, theirs.fileno(), log)
        report.started()
        assert process.wait(60) == 0
        assert ours.recv(100) == b"said\n"
    lines = log.text().splitlines()
    assert lines[:2] == ["/tmp /tmp", "written"], lines
    assert int(lines[2]) != os.getuid() or not capabilities().root
    assert report.text() == "========= ERROR SUMMARY: 0 errors\n"
    log.close()


def test_trusted_roles_are_not_confined_and_say_so() -> None:
    assert [role for role in Role if ROLES[role].trusted] == [Role.baseline, Role.oracle]
    assert {start.level_of(role) for role in (Role.baseline, Role.oracle)} == {Level.none}


def test_every_role_has_a_row() -> None:
    assert set(ROLES) == set(Role)
