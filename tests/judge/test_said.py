"""What a candidate makes tools print costs no time to read, however long it is."""

from __future__ import annotations

import time

import pytest

from kernelwright.isolation.said import LINE, lines_said
from kernelwright.judge.gpu.sanitize import Tool, parse

LENGTH = 250_000
SECONDS = 5.0  # it takes milliseconds; without bounds it takes minutes


def test_paths_of_the_sandbox_are_taken_off() -> None:
    said = "In file from /source/glue.cpp:3,\n\n  /tmp/b.1/s/kernel.cpp:7:5: error: no  \n"
    said += "at /a/kernel.cu:2 of kernelwright.h:9"
    assert lines_said(said) == [
        "In file from glue.cpp:3,",
        "  kernel.cpp:7:5: error: no",
        "at kernel.cu:2 of kernelwright.h:9",
    ]


@pytest.mark.parametrize("piece", ["/", "/a", "/a/kernel.cpp", "/a" * (LINE // 2) + "\n", f"/{'a' * 255}"])
def test_a_long_line_is_read_at_once(piece: str) -> None:
    begin = time.process_time()
    lines = lines_said((piece * (LENGTH // len(piece) + 1))[:LENGTH])
    assert time.process_time() - begin < SECONDS
    assert all(len(line) <= LINE for line in lines)


def test_a_long_line_of_a_report_is_read_at_once() -> None:
    begin = time.process_time()
    found = parse(Tool.memcheck, "========= Invalid __global__ read of size 4\n=========" + " at a" * (LENGTH // 5))
    assert time.process_time() - begin < SECONDS
    assert len(found) == 1
