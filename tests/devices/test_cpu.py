"""A copy with streaming stores is measured where there are such stores; the best copy is the peak."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from kernelwright.devices import cpu
from kernelwright.devices.compiler import compiled
from kernelwright.devices.cpu import COPY_FLAGS, COPY_SOURCE, has_streaming_stores, streaming_copy
from kernelwright.errors import CannotDecide

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="streaming stores are x86's")


@x86
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_copy_takes_as_long_as_copying_takes(threads: int) -> None:
    assert 1e8 < streaming_copy(1 << 22, threads) < 1e13


@x86
@pytest.mark.parametrize("arguments", [(), ("0", "1", "1"), (str(1 << 20), "0", "1"), (str(1 << 20), "1", "0")])
def test_a_copy_of_nothing_gives_no_time(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([compiled(COPY_SOURCE, "copy", COPY_FLAGS), *arguments], capture_output=True, check=False)
    assert done.returncode != 0 and not done.stdout


@x86
def test_a_program_that_fails_is_said() -> None:
    with pytest.raises(CannotDecide, match="memory"):
        streaming_copy(0, 1)


def _no_compiler() -> str:
    raise CannotDecide("no C++ compiler")


def test_without_a_compiler_or_on_another_cpu_there_is_the_plain_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "COPIED_BYTES", 1 << 20)
    monkeypatch.setattr(cpu, "SIDE", 64)
    monkeypatch.setattr(cpu, "streaming_copy", lambda *_: pytest.fail("there is nothing to measure it with"))
    with monkeypatch.context() as changed:
        changed.setattr(cpu, "compiler", _no_compiler)
        assert not has_streaming_stores() and cpu.measure("a CPU", 1).bandwidth > 1e8
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert not has_streaming_stores() and cpu.measure("a CPU", 1).bandwidth > 1e8


def test_the_faster_copy_is_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "COPIED_BYTES", 1 << 20)
    monkeypatch.setattr(cpu, "SIDE", 64)
    monkeypatch.setattr(cpu, "has_streaming_stores", lambda: True)
    monkeypatch.setattr(cpu, "streaming_copy", lambda *_: 1e15)
    assert cpu.measure("a CPU", 1).bandwidth == 1e15
    monkeypatch.setattr(cpu, "streaming_copy", lambda *_: 1.0)
    assert cpu.measure("a CPU", 1).bandwidth > 1e8


def test_what_other_programs_hold_is_not_available(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 24000000 kB\nMemAvailable: 1024 kB\n")
    assert cpu.available_memory(meminfo, tmp_path) == 1 << 20
    (tmp_path / "memory.max").write_text("900000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert cpu.available_memory(meminfo, tmp_path) == 500_000
    (tmp_path / "memory.max").write_text("max\n")
    assert cpu.available_memory(meminfo, tmp_path) == 1 << 20


def test_where_the_system_does_not_say_all_memory_is_available(tmp_path: Path) -> None:
    assert cpu.available_memory(tmp_path / "missing", tmp_path) == cpu.probe().memory_bytes
