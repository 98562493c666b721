"""A bound is what must be moved or multiplied, at measured peaks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelwright.devices import peaks_cpu
from kernelwright.devices.peaks_cpu import CpuPeaks, cpu_peaks
from kernelwright.insight.bound import bound
from kernelwright.tasks.resolve import resolve

PEAKS = CpuPeaks("some CPU", threads=2, bandwidth=1e10, float32=1e11, float64=5e10)


def test_an_operation_over_rows_is_bounded_by_what_it_moves() -> None:
    task = resolve("softmax")
    least = bound(task, task.public_workloads()[0], PEAKS)
    assert least.bytes == 2 * 4 * 2048 * 2048
    assert least.operations == 0
    assert least.seconds == pytest.approx(least.bytes / 1e10)


def test_a_product_is_bounded_by_what_it_multiplies() -> None:
    task = resolve("linear_relu")
    least = bound(task, task.public_workloads()[0], PEAKS)
    assert least.operations == 2 * 768 * 512 * 512
    assert least.seconds == least.computing == pytest.approx(least.operations / 1e11)


def test_what_changes_in_place_is_moved_twice() -> None:
    task = resolve("adamw")
    assert bound(task, task.public_workloads()[0], PEAKS).bytes == 7 * 4 * (1 << 20)


def test_an_input_that_no_result_needs_is_not_moved() -> None:
    task = resolve("linear_relu:backward")  # reads x, weight, the saved output and its gradient, and no bias
    by_rows, square, units = 768 * 512, 512 * 512, 512
    assert bound(task, task.public_workloads()[0], PEAKS).bytes == 4 * (4 * by_rows + 2 * square + units)


def test_peaks_are_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(peaks_cpu, "COPIED_BYTES", 1 << 20)
    monkeypatch.setattr(peaks_cpu, "SIDE", 64)
    first = cpu_peaks()
    assert first.bandwidth > 1e8 and first.float32 > 1e8 and first.threads == torch.get_num_threads()
    monkeypatch.setattr(peaks_cpu, "measure", lambda *_: pytest.fail("measured again"))
    assert cpu_peaks() == first


def test_a_damaged_file_of_peaks_is_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(peaks_cpu, "measure", lambda model, threads: CpuPeaks(model, threads, 1.0, 2.0, 3.0))
    cpu_peaks()
    (kept,) = (tmp_path / "cache" / "peaks").iterdir()
    for damage in (b"", b"[]", b'{"version": 0}', b'{"version": 1, "model": "x"}'):
        kept.write_bytes(damage)
        assert cpu_peaks().bandwidth == 1.0


def test_what_was_measured_without_streaming_stores_is_not_taken_for_what_is_measured_with_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    for streams, bandwidth in ((False, 1.0), (True, 2.0), (False, 1.0)):
        monkeypatch.setattr(peaks_cpu, "streams", lambda streams=streams: streams)
        found = CpuPeaks("a CPU", 1, bandwidth, 2.0, 3.0)
        monkeypatch.setattr(peaks_cpu, "measure", lambda *_, found=found: found)
        assert cpu_peaks().bandwidth == bandwidth
