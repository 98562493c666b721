"""Commands as processes on a real pseudo-terminal: stopped by Ctrl-C and SIGTERM, and fed with hostile text."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminal import CTRL_C, ROOT, Terminal
from tests.cli.test_optimize import run

from kernelwright.search.core.events import StopReason
from kernelwright.search.run import look

FOREVER = 3600.0  # a judging that a signal ends, however late it comes
TOY = [sys.executable, "-m", "tests.cli.toy_command"]


def optimize(root: Path, seconds: float, *arguments: str) -> list[str]:
    return [*TOY, str(seconds), "optimize", "--runs", str(root), "--budget", "14evals", *arguments]


def piped(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_ctrl_c_on_a_terminal_stops_says_how_to_go_on_and_resume_does(tmp_path: Path) -> None:
    with Terminal(optimize(tmp_path, FOREVER, "rmsnorm")) as terminal:
        terminal.read_until("0002  ")
        terminal.press(CTRL_C)
        assert terminal.read_to_the_end() == 3
    folder = tmp_path / "rmsnorm-1"
    last = terminal.seen.rstrip().splitlines()[-1]
    assert last == f"kernelwright: interrupted; continue with: kernelwright optimize --resume {folder}"
    assert "it was interrupted (by hand)" in terminal.seen and "Traceback" not in terminal.seen
    before = look(folder)
    assert before.stopped is not None and before.stopped.reason is StopReason.interrupted
    code, said = piped(optimize(tmp_path, 0, "--resume", "rmsnorm-1"))
    assert code in (0, 1) and "budget" in said
    assert look(folder).evaluated > before.evaluated >= 2


def test_sigterm_stops_as_ctrl_c_does(tmp_path: Path) -> None:
    command = optimize(tmp_path, FOREVER, "rmsnorm")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        while "0002  " not in running.stdout.readline():
            assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        said = running.stdout.read()
    folder = tmp_path / "rmsnorm-1"
    assert running.returncode == 3 and f"continue with: kernelwright optimize --resume {folder}" in said
    assert "it was interrupted (by SIGTERM)" in said
    assert "- stopped: it was interrupted (by SIGTERM)" in (folder / "summary.md").read_text()


def test_a_run_that_is_interrupted_while_its_task_is_opened_is_stopped_too(tmp_path: Path) -> None:
    with Terminal(optimize(tmp_path, -1, "rmsnorm")) as terminal:
        terminal.read_until("opening the task")
        terminal.press(CTRL_C)
        assert terminal.read_to_the_end() == 3
    assert "interrupted; continue with:" in terminal.seen
    assert "- stopped: it was interrupted" in (tmp_path / "rmsnorm-1" / "summary.md").read_text()


HOSTILE = '''"""Doubles\x1b]0;owned\x07 and \x1b[31mmore\u202e."""

import torch
from kernelwright.tasks import Task, tensor


def reference(x):
    return 2 * x  # \x1b[2J


task = Task(reference, inputs={"x": tensor("n")}, public=[{"n": 1024}], hidden={"n": (512, 2048)})
'''


@pytest.mark.parametrize("command", [["prompt"], ["contract", "cpp"], ["tasks", "show"]], ids=" ".join)
def test_a_task_cannot_command_the_terminal(tmp_path: Path, command: list[str]) -> None:
    task = tmp_path / "hostile.py"
    task.write_text(HOSTILE)
    whole = [sys.executable, "-m", "kernelwright.cli.main", *command, str(task)]
    with Terminal(whole) as terminal:
        assert terminal.read_to_the_end() == 0
    assert b"\x1b]0;" not in terminal.raw and b"\x1b[31m" not in terminal.raw and b"\x1b[2J" not in terminal.raw
    assert r"Doubles\x1b]0;owned\x07" in terminal.seen
    if command != ["tasks", "show"]:
        assert "\x1b]0;owned\x07" in run(*command, str(task))[1]  # in a pipe it is what would be sent, to the letter
