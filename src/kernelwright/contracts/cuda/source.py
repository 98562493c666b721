"""The two texts of a `cuda` candidate, kernel.cu and plan.py, as one source and back.

A candidate is a directory with the two files, or one .cu file in which the plan stands in a comment that begins with
`/* plan.py`. Both read as the same canonical text, so that both have the same identity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts.candidate import Candidate, CandidateError, read_candidate
from kernelwright.paths import printable

KERNEL_NAME, PLAN_NAME = "kernel.cu", "plan.py"
SHOWN = "`kernelwright contract cuda TASK --skeleton` prints both parts"
_MARK = "/* plan.py"
_OPEN = f"{_MARK}\n"
_CLOSE = "*/"
_HEAD = re.compile(r"/\*[ \t]*plan\.py[ \t]*\n")


@dataclass(frozen=True)
class Sources:
    kernel: str
    plan: str

    def joined(self) -> str:
        """The canonical text: the plan in a comment behind the kernels, so that their line numbers stay."""
        if _CLOSE in self.plan:
            raise CandidateError(f"{PLAN_NAME} contains '*/', which would end the comment it is kept in: write '* /'")
        return f"{self.kernel.rstrip()}\n\n{_OPEN}{self.plan.strip()}\n{_CLOSE}\n"


def split(source: str) -> Sources:
    """The kernel's text, with the plan's comment blanked so that lines keep their numbers, and the plan's."""
    found = _plans(source)
    if len(found) != 1:
        there = "has no plan" if not found else f"has {len(found)} plans"
        raise CandidateError(
            f"the source {there}: write the plan once, in a comment that begins with '{_MARK}' on a line of its own; "
            f"{SHOWN}"
        )
    (start, plan, end) = found[0]
    blank = "\n" * source.count("\n", start, end)
    return Sources(source[:start] + blank + source[end:], source[plan : end - len(_CLOSE)])


def has_plan(source: str) -> bool:
    return bool(_plans(source))


def _plans(source: str) -> list[tuple[int, int, int]]:
    """Of each plan's comment: where it begins, where the plan begins, and where the comment has ended.

    In one pass: a comment that is never closed is not looked into for others.
    """
    found: list[tuple[int, int, int]] = []
    at = 0
    while head := _HEAD.search(source, at):
        close = source.find(_CLOSE, head.end())
        if close < 0:
            break
        at = close + len(_CLOSE)
        found.append((head.start(), head.end(), at))
    return found


def from_blocks(blocks: Sequence[str]) -> Sources | None:
    """A kernel and a plan in blocks of their own, as some answer though one block is asked for."""
    plans = [block for block in blocks if re.search(r"^def plan\(", block, re.M) and _MARK not in block]
    kernels = [block for block in blocks if "__global__" in block]
    if not plans or not kernels:
        return None
    kernel = max(kernels, key=len)
    return None if _MARK in kernel else Sources(kernel, max(plans, key=len))


def read_cuda_candidate(path: Path) -> Candidate:
    """A directory with kernel.cu and plan.py, or one file that has both."""
    shown = printable(str(path))
    if not path.is_dir():
        source = read_candidate(path, "cuda").source
        try:
            joined = split(source).joined()
        except CandidateError as error:
            raise CandidateError(f"{shown}: {error}") from None
        return Candidate("cuda", joined, printable(path.name))
    for name in (KERNEL_NAME, PLAN_NAME):
        if not (path / name).exists():
            missing = printable(str(path / name))
            raise CandidateError(
                f"{missing}: no such file: a cuda candidate has {KERNEL_NAME} and {PLAN_NAME}; {SHOWN}"
            )
    kernel = read_candidate(path / KERNEL_NAME, "cuda").source
    if _plans(kernel):
        raise CandidateError(f"{shown}: has {PLAN_NAME} and another plan inside {KERNEL_NAME}: keep one")
    plan = read_candidate(path / PLAN_NAME, "cuda").source
    try:
        joined = Sources(kernel, plan).joined()
    except CandidateError as error:
        raise CandidateError(f"{shown}: {error}") from None
    return Candidate("cuda", joined, printable(path.name))


def binds_functions(path: Path) -> bool:
    """Whether a file is a torch extension: host code that launches its kernels itself, and no plan."""
    try:
        source = read_candidate(path, "cuda").source
    except CandidateError:
        return False
    return "PYBIND11_MODULE" in source and not has_plan(source)
