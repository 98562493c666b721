"""Reports of compute-sanitizer become findings that name a line of kernel.cu."""

from __future__ import annotations

from kernelwright.judge.gpu.sanitize import Finding, Tool, complete, parse

SOURCE = "kernel.cu"
RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at run+0x2b0 in kernel.cu:8
=========     and Read access at run+0x310 in kernel.cu:10 [760 hazards]
=========     and Read access at run+0x320 in kernel.cu:10 [720 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
WRITE = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at void f<(int)4>(float *, int)+0x1e0 in /tmp/x/kernel.cu:18
=========     by thread (0,0,0) in block (0,0,0)
=========     Access at 0x7f2a8c200000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2a8c1f0000 of size 135564 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at void f<(int)4>(float *, int)+0x1e0 in /tmp/x/kernel.cu:18
=========     by thread (1,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 2 errors
"""
OLD = """\
========= Invalid __shared__ read of size 4 bytes
=========     at 0x2b0 in kernel.cu:31:run(float *)
========= ERROR SUMMARY: 1 error
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def test_a_race_names_both_sides() -> None:
    (finding,) = parse(Tool.racecheck, RACE, SOURCE)
    assert (finding.line, finding.kernel) == (8, "run")
    assert finding.describe(SOURCE) == (
        "kernel.cu:8: racecheck: Race reported between Write access and Read access of line 10 in run"
    )


def test_many_threads_make_one_finding() -> None:
    assert parse(Tool.memcheck, WRITE, SOURCE) == (
        Finding(Tool.memcheck, "Invalid __global__ write of size 4 bytes", 18, "void f<(int)4>(float *, int)"),
    )


def test_the_older_form_is_read_too() -> None:
    (finding,) = parse(Tool.memcheck, OLD, SOURCE)
    assert (finding.line, finding.kernel) == (31, "run(float *)")


def test_the_source_has_the_name_that_its_contract_gives_it() -> None:
    (finding,) = parse(Tool.racecheck, RACE.replace("kernel.cu", "tiles.x"), "tiles.x")
    assert finding.describe("tiles.x").startswith("tiles.x:8: racecheck: ") and "of line 10" in finding.what
    (finding,) = parse(Tool.racecheck, RACE, "tiles.x")
    assert finding.line is None and finding.kernel == "run"


def test_a_clean_report_has_no_findings() -> None:
    assert parse(Tool.initcheck, CLEAN, SOURCE) == ()


def test_a_report_in_unknown_words_is_not_taken_for_clean() -> None:
    text = "========= Something new went wrong\n========= ERROR SUMMARY: 3 errors\n"
    (finding,) = parse(Tool.memcheck, text, SOURCE)
    assert "3 faults" in finding.what


def test_what_a_kernel_prints_is_no_report() -> None:
    assert (
        parse(Tool.memcheck, "Invalid __global__ write of size 4 bytes\n at f+0x10 in kernel.cu:3\n" + CLEAN, SOURCE)
        == ()
    )


def test_what_a_kernel_prints_does_not_hide_a_line() -> None:
    """Where a tool reports on standard output, a print without an end stands before the tool's line."""
    hidden = WRITE.replace("========= Invalid", "printed========= Invalid")
    assert parse(Tool.memcheck, hidden, SOURCE) == parse(Tool.memcheck, WRITE, SOURCE)


def test_a_report_without_its_summary_is_not_complete() -> None:
    assert complete(CLEAN) and complete(RACE) and complete(WRITE)
    assert not complete("") and not complete(CLEAN.splitlines()[0])
