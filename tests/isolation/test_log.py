"""What a candidate makes tools print costs no time to read, however long it is."""

from __future__ import annotations

import os
import re
import time

import pytest

from kernelwright.isolation.log import LONGEST_LINE, DrainedLog, ToolReport, shown_lines
from kernelwright.judge.gpu.sanitize import Tool, parse

LENGTH = 250_000
SECONDS = 5.0  # it takes milliseconds; without bounds it takes minutes


def test_paths_of_the_sandbox_are_taken_off() -> None:
    said = "In file from /source/glue.cpp:3,\n\n  /tmp/b.1/s/kernel.cpp:7:5: error: no  \n"
    said += "at /a/kernel.cu:2 of kernelwright.h:9"
    assert shown_lines(said, ("kernel.cpp", "kernel.cu", "glue.cpp", "kernelwright.h")) == [
        "In file from glue.cpp:3,",
        "  kernel.cpp:7:5: error: no",
        "at kernel.cu:2 of kernelwright.h:9",
    ]


def test_names_are_taken_as_they_are_and_other_files_are_left_alone() -> None:
    assert shown_lines("/s/kernel.c:4:7: error\n/s/kernel_c:4: no", ("kernel.c",)) == [
        "kernel.c:4:7: error",
        "/s/kernel_c:4: no",
    ]


@pytest.mark.parametrize("piece", ["/", "/a", "/a/kernel.cpp", "/a" * (LONGEST_LINE // 2) + "\n", f"/{'a' * 255}"])
def test_a_long_line_is_read_at_once(piece: str) -> None:
    begin = time.process_time()
    lines = shown_lines((piece * (LENGTH // len(piece) + 1))[:LENGTH], ("kernel.cpp", "glue.cpp"))
    assert time.process_time() - begin < SECONDS
    assert all(len(line) <= LONGEST_LINE for line in lines)


def test_a_long_line_of_a_report_is_read_at_once() -> None:
    begin = time.process_time()
    text = "========= Invalid __global__ read of size 4\n=========" + " at a" * (LENGTH // 5)
    found = parse(Tool.memcheck, text, "kernel.cu")
    assert time.process_time() - begin < SECONDS
    assert len(found) == 1


def report_of(*parts: bytes, bound: int = 1 << 20) -> ToolReport:
    """What is left of a report that a process wrote part by part, and rewrote nothing of."""
    report = ToolReport(bound)
    for part in parts:
        os.write(report.fd, part)
    return report


def test_a_report_is_read_whole() -> None:
    long = [b"========= line %d\n" % number for number in range(50_000)]
    assert report_of(*long, bound=16 << 20).text() == b"".join(long).decode()


def test_of_a_report_that_is_too_long_beginning_and_end_are_kept() -> None:
    report = report_of(b"first\n", *[b"x" * 1000 + b"\n"] * 2000, b"SUMMARY: 1 error\n", bound=1 << 16)
    text = report.text()
    assert report.cut and len(text) <= (1 << 16) + 1
    assert text.startswith("first\n") and text.endswith("SUMMARY: 1 error\n")


def test_a_report_whose_process_still_holds_it_is_not_believed() -> None:
    report = report_of(b"SUMMARY: 0 errors\n")
    held = os.dup(report.fd)
    assert report.text(0.1) == ""
    os.close(held)
    assert report.text() == "SUMMARY: 0 errors\n"


TELLING = re.compile(rb"FAULT[^\n]{0,100}")


@pytest.mark.parametrize("before", [0, 1000, 65_530, 65_536, 200_000, 1_000_003])
def test_a_fault_is_kept_however_much_is_written_around_it(before: int) -> None:
    report = ToolReport(1 << 16, TELLING)
    for part in (b"x" * before, b"\n== FAULT at 7\n", b"y" * 1_000_000, b"\nlast"):
        os.write(report.fd, part)
    text = report.text()
    assert "FAULT at 7" in text and text.endswith("last") and report.cut
    assert len(text) < 3 << 16


def test_many_faults_are_kept_within_the_bound() -> None:
    report = ToolReport(1 << 16, TELLING)
    for _ in range(100_000):
        os.write(report.fd, b"FAULT FAULT FAULT\n" * 10)
    assert len(report.text()) < 3 << 16


def test_nothing_in_a_drained_log_can_be_rewritten_or_read_by_its_writer() -> None:
    log = DrainedLog(TELLING, 1 << 16)
    os.write(log.fd, b"== FAULT at 7\n")
    with pytest.raises(OSError, match="seek"):
        os.lseek(log.fd, 0, os.SEEK_SET)
    with pytest.raises(OSError, match="No such device"):
        os.open(f"/proc/self/fd/{log.fd}", os.O_RDONLY)
    assert os.read(log.fd, 100) == b""
    for _ in range(300):
        os.write(log.fd, b"\n" * 10_000)
    assert log.text().startswith("== FAULT at 7\n")
    os.write(log.fd, b"\x1b[31mlast")
    assert log.text().endswith("\ufffd[31mlast")  # as long as it is open
    log.close()
    assert "FAULT" in log.text()
