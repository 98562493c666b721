"""`kernelwright doctor`: what this machine offers, what is missing, and how to get it."""

from __future__ import annotations

import platform
import shutil
from importlib import metadata
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.markup import escape

from kernelwright import selftest
from kernelwright.cli.doctor_gpu import DoctorFinding, examine_gpus
from kernelwright.cli.views.output import Progress, console, print_json
from kernelwright.devices.compiler import compiler, compiler_version
from kernelwright.devices.cpu import probe
from kernelwright.errors import CannotDecide
from kernelwright.isolation import levels
from kernelwright.judge.arena import Segment, region_of
from kernelwright.judge.cpu.safety import sanitizers_available
from kernelwright.judge.wording import duration
from kernelwright.paths import cache_dir
from kernelwright.tasks.model import TensorSpec
from kernelwright.version import __version__

SCHEMA_VERSION = 1
LEAST_DISK = 1 << 30


class DoctorReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: str = "doctor"
    version: str = __version__
    findings: list[DoctorFinding]
    sandbox: str
    arena: str
    can_judge: bool
    can_judge_gpu: bool
    self_test: list[selftest.SelfTest] | None = None


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
    isolation: Annotated[
        levels.Level | None, typer.Option(help="Fail if the machine offers less isolation than this.")
    ] = None,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Judge honest and cheating kernels on this machine, in under a minute.")
    ] = False,
) -> None:
    """Check this machine: hardware, compilers, sandbox.

    Exit code 0: ready to judge; 1: the self-test failed; 3: something that the judge needs is missing.
    """
    report = examine()
    if not json:
        _show(report)
    if isolation is not None:
        levels.demand(isolation)
    if self_test and report.can_judge:
        report.self_test = _self_test(quiet=json)
    if json:
        print_json(report)
    failed = report.self_test is not None and not all(test.as_it_must_be for test in report.self_test)
    raise typer.Exit(1 if failed else 0 if report.can_judge else 3)


def _self_test(*, quiet: bool) -> list[selftest.SelfTest]:
    found, out = [], console()
    with Progress(quiet=quiet) as progress:
        progress.start("self-test")
        for test in selftest.run(progress):
            progress.clear()
            found.append(test)
            if not quiet:
                mark = "[green]ok[/]    " if test.as_it_must_be else "[bold red]FAILED[/]"
                what = "an honest kernel" if test.honest else test.tries
                out.print(
                    f"  {mark} {test.verdict} ({test.reason}): {escape(test.name)}, {escape(what)}", soft_wrap=True
                )
    if not quiet:
        cheats = [test for test in found if not test.honest]
        caught = sum(test.as_it_must_be for test in cheats)
        kept = sum(test.as_it_must_be for test in found if test.honest)
        seconds = duration(sum(test.seconds for test in found))
        out.print(
            f"{caught} of {len(cheats)} cheats caught, {kept} of {len(found) - len(cheats)} honest kernels accepted, "
            f"in {seconds}"
        )
    return found


def examine() -> DoctorReport:
    findings = [_cpu(), _memory(), _disk(), _python(), _torch(), _compiler()]
    level, arena = levels.Level.none, "none"
    if findings[-1].ok:
        level = levels.capabilities().level
        arena = _arena_level()
        findings += [_sanitizers(), _sandbox(level), _arena(arena)]
    gpus, can_judge_gpu = examine_gpus()
    findings += gpus
    essential = ("PyTorch", "C++ compiler")
    can_judge = all(finding.ok for finding in findings if finding.what in essential)
    return DoctorReport(
        findings=findings, sandbox=level, arena=arena, can_judge=can_judge, can_judge_gpu=can_judge and can_judge_gpu
    )


def _cpu() -> DoctorFinding:
    cpu = probe()
    return DoctorFinding(what="CPU", found=f"{cpu.model}, {len(cpu.cores)} usable cores, {cpu.architecture}", ok=True)


def _memory() -> DoctorFinding:
    return DoctorFinding(what="memory", found=f"{probe().memory_bytes / 2**30:.0f} GiB", ok=True)


def _disk() -> DoctorFinding:
    try:
        path = cache_dir()
        free = shutil.disk_usage(path).free
    except OSError as error:
        return DoctorFinding(
            what="cache", found=str(error), ok=False, fix="set KERNELWRIGHT_HOME to a writable directory"
        )
    fix = "" if free >= LEAST_DISK else "free some space, or set KERNELWRIGHT_HOME to another file system"
    return DoctorFinding(what="cache", found=f"{path}, {free / 2**30:.0f} GiB free", ok=not fix, fix=fix)


def _python() -> DoctorFinding:
    return DoctorFinding(what="Python", found=f"{platform.python_version()} on Linux {platform.release()}", ok=True)


def _torch() -> DoctorFinding:
    try:
        return DoctorFinding(what="PyTorch", found=metadata.version("torch"), ok=True)
    except metadata.PackageNotFoundError:
        return DoctorFinding(what="PyTorch", found="missing", ok=False, fix="pip install -e '.[torch]' in the clone")


def _compiler() -> DoctorFinding:
    try:
        return DoctorFinding(what="C++ compiler", found=f"{compiler_version()} ({compiler()})", ok=True)
    except CannotDecide as error:
        return DoctorFinding(what="C++ compiler", found="missing", ok=False, fix=str(error))


def _sanitizers() -> DoctorFinding:
    if sanitizers_available():
        return DoctorFinding(what="sanitizers", found="AddressSanitizer and UBSan", ok=True)
    fix = "install the compiler's sanitizer libraries (Debian: libasan and libubsan of your gcc version)"
    return DoctorFinding(what="sanitizers", found="missing", ok=False, fix=fix)


def _sandbox(level: levels.Level) -> DoctorFinding:
    found = levels.capabilities()
    user = "another user" if found.root else "a user namespace" if found.namespaces else "the same user"
    parts = f"seccomp {'yes' if found.seccomp else 'no'}, Landlock {found.landlock or 'no'}, namespaces "
    parts += f"{'yes' if found.namespaces else 'no'}, candidates run as {user}"
    advice = "; ".join(found.missing())
    return DoctorFinding(what="isolation", found=f"{level} ({parts})", ok=level is levels.Level.full, fix=advice)


def _arena_level() -> str:
    segment = Segment(region_of(TensorSpec("probe", "float32", (16,), (1,), "input")))
    level = segment.level
    segment.close()
    return level


def _arena(level: str) -> DoctorFinding:
    ok = level == "sealed"
    return DoctorFinding(what="arena", found=level, ok=ok, fix="" if ok else "write seals need Linux 5.1 or newer")


def _mark(finding: DoctorFinding) -> str:
    if finding.absent:
        return "[dim]-[/]      "
    return "[green]ok[/]     " if finding.ok else "[yellow]missing[/]"


def _show(report: DoctorReport) -> None:
    out = console()
    out.print(f"[bold]kernelwright {report.version}[/]")
    for finding in report.findings:
        out.print(f"  {_mark(finding)} {finding.what:<17} {escape(finding.found)}", soft_wrap=True)
        if finding.fix and not finding.ok:
            out.print(f"          {'':<17} [dim]{escape(finding.fix)}[/]", soft_wrap=True)
    where = "the CPU and the GPU" if report.can_judge_gpu else "the CPU"
    out.print(f"ready to judge on {where}" if report.can_judge else "not ready to judge: install what is missing above")
