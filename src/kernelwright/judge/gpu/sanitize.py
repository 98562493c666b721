"""compute-sanitizer: its tools, and what a report says, as lines of the candidate's source."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from kernelwright.isolation.log import LONGEST_LINE
from kernelwright.judge.gpu.client import Faulted, Tooling

MOST_FINDINGS = 20


class Tool(StrEnum):
    memcheck = "memcheck"
    racecheck = "racecheck"
    initcheck = "initcheck"


QUICK_TOOLS = (Tool.memcheck, Tool.initcheck)
"""Those that a heavy workload is looked at with; races are looked for on a lighter one."""


_EXTRA: dict[Tool, tuple[str, ...]] = {
    Tool.memcheck: ("--leak-check", "no", "--report-api-errors", "no"),  # the launcher reports those itself
    Tool.racecheck: ("--racecheck-report", "analysis"),
    Tool.initcheck: (),
}


@dataclass(frozen=True)
class Finding:
    """One fault: what it is, the line of the candidate's source if the report names one, and the kernel."""

    tool: Tool
    what: str
    line: int | None
    kernel: str

    def describe(self, source: str) -> str:
        """In one line. `source` names the file that has the kernels."""
        where = f"{source}:{self.line}: " if self.line else ""
        return f"{where}{self.tool}: {self.what}{f' in {self.kernel}' if self.kernel else ''}"


@dataclass(frozen=True)
class Inspection:
    """What one tool said. `failed` is why it could not say anything, or empty."""

    tool: Tool
    findings: tuple[Finding, ...] = ()
    fault: Faulted | None = None
    failed: str = ""


@cache
def toolkit_program(name: str) -> str | None:
    """The path of a program that comes with the CUDA toolkit."""
    homes = [os.environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH")]
    folders = [f"{home}/bin" for home in homes if home]
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *folders, "/usr/local/cuda/bin"]))


def sanitizer() -> str | None:
    """The path of compute-sanitizer."""
    return toolkit_program("compute-sanitizer")


def sanitizing(path: str, tool: Tool) -> Tooling:
    """What runs a launcher under a tool."""
    return Tooling(path, ("--tool", tool, "--print-limit", "100", *_EXTRA[tool]), _TELLING)


_HEADS = (
    re.compile(r"^(Invalid __\w+__ (?:read|write|atomic)[^\n]*)$"),
    re.compile(r"^(Uninitialized __\w+__ memory (?:read|access)[^\n]*)$"),
    re.compile(r"^(?:Error|Warning): (Race reported between .*?)(?: at |$)"),
    re.compile(r"^(?:Error|Warning): (Potential \w+ hazard detected[^\n]*)$"),
    re.compile(r"^(Barrier error detected[^\n]*)$"),
    re.compile(r"^(Out-of-range shared or local address[^\n]*)$"),
    re.compile(r"^(Stack overflow[^\n]*)$"),
    re.compile(r"^(Misaligned [^\n]*)$"),
)
# A fault, which has its place in the line itself or in one of the next two; and what counts faults.
_TELLING = re.compile(
    rb"=========[^\n]{0,20}(?:Invalid __|Uninitialized __|Race reported|Potential \w+ hazard|Barrier error"
    rb"|Out-of-range |Stack overflow|Misaligned |SUMMARY: [1-9])[^\n]{0,1000}(?:\n=========[^\n]{0,400}){0,2}"
)
_SUMMARY = re.compile(r"^(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")


@dataclass(frozen=True)
class _Places:
    """How a report names a kernel and a line of the candidate's source."""

    kernel: tuple[re.Pattern[str], ...]
    other: re.Pattern[str]  # the second side of a race


@cache
def _places(source: str) -> _Places:
    within = rf" in (?:\S*/)?{re.escape(source)}:"
    return _Places(
        (
            re.compile(rf" (?:at|in) (?P<kernel>[^\n]+?)\+0x[0-9a-f]+{within}(?P<line>\d+)"),
            re.compile(rf"{within}(?P<line>\d+):(?P<kernel>[^\n]+)"),
            re.compile(r" (?:at|in) (?P<kernel>[A-Za-z_][^\n]*?)\+0x[0-9a-f]+"),
        ),
        re.compile(rf"^and (\w+ access) at .*{within}(\d+)"),
    )


def parse(tool: Tool, text: str, source: str) -> tuple[Finding, ...]:
    """The faults of a report, each once, in order. Kernels of the judge's own are not looked at. `source` names the
    file that has the candidate's kernels."""
    lines, places = _lines(text), _places(source)
    found: dict[Finding, None] = {}
    for number, line in enumerate(lines):
        head = next((match for pattern in _HEADS if (match := pattern.search(line))), None)
        if head is None:
            continue
        place = _place(lines[number : number + 3], places)
        kernel = place.group("kernel").strip() if place else ""
        if kernel.startswith("kw_"):
            continue
        at = int(place.group("line")) if place and "line" in place.re.groupindex else None
        what = _told(head.group(1).strip(), lines[number + 1 : number + 2], places)
        found[Finding(tool, what, at, kernel)] = None
    counted = sum(int(match.group(1)) for line in lines if (match := _SUMMARY.search(line)))
    if counted and not found:
        found[Finding(tool, f"{counted} faults that its report does not place", None, "")] = None
    return tuple(found)[:MOST_FINDINGS]


MARK, SUMMARY = "=========", "SUMMARY:"


def complete(text: str) -> bool:
    """Whether a report has its last line: one that was cut off says nothing of the rest."""
    return any(_SUMMARY.search(line) for line in _lines(text))


def _lines(text: str) -> list[str]:
    """The tool's own lines. Where it reports on standard output, a kernel may have printed something before one."""
    marked = (line.partition(MARK) for line in text.splitlines())
    return [rest[:LONGEST_LINE].strip() for _, mark, rest in marked if mark]


def _told(what: str, following: Sequence[str], places: _Places) -> str:
    """A race has two sides; the second stands in the next line."""
    other = places.other.search(following[0]) if following and what.startswith("Race") else None
    return f"{what} and {other.group(1)} of line {other.group(2)}" if other else what


def _place(lines: Sequence[str], places: _Places) -> re.Match[str] | None:
    text = "\n".join(f" {line}" for line in lines)
    return next((match for pattern in places.kernel if (match := pattern.search(text))), None)
