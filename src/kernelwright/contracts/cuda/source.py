"""The two texts of a `cuda` candidate, kernel.cu and plan.py, as one source and back.

A candidate is a directory with the two files, or one .cu file in which the plan stands in a comment that begins with
`/* plan.py`. Both read as the same canonical text, so that both have the same identity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts.candidate import Candidate, CandidateError, read_candidate
from kernelwright.paths import printable

KERNEL_NAME, PLAN_NAME = "kernel.cu", "plan.py"
_OPEN = "/* plan.py\n"
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
        raise CandidateError(f"the source {there}: write the plan once, in a comment that begins with '/* plan.py'")
    (start, plan, end) = found[0]
    blank = "\n" * source.count("\n", start, end)
    return Sources(source[:start] + blank + source[end:], source[plan : end - len(_CLOSE)])


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


def read_cuda_candidate(path: Path) -> Candidate:
    """A directory with kernel.cu and plan.py, or one file that has both."""
    if not path.is_dir():
        candidate = read_candidate(path, "cuda")
        sources = split(candidate.source)
        return Candidate("cuda", Sources(sources.kernel, sources.plan).joined(), printable(path.name))
    kernel = read_candidate(path / KERNEL_NAME, "cuda").source
    if _plans(kernel):
        raise CandidateError(f"{printable(str(path))}: has {PLAN_NAME} and another plan inside {KERNEL_NAME}: keep one")
    plan = read_candidate(path / PLAN_NAME, "cuda").source
    return Candidate("cuda", Sources(kernel, plan).joined(), printable(path.name))
