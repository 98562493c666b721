"""The two texts of a `cuda` candidate, kernel.cu and plan.py, as one source and back.

A candidate is a directory with the two files, or one .cu file in which the plan stands in a comment that begins with
`/* plan.py`. Both read as the same canonical text, so that both have the same identity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts.candidate import Candidate, CandidateError, read_candidate

KERNEL_NAME, PLAN_NAME = "kernel.cu", "plan.py"
_OPEN = "/* plan.py\n"
_CLOSE = "*/"
_COMMENT = re.compile(r"/\*[ \t]*plan\.py[ \t]*\n(.*?)\*/", re.DOTALL)


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
    found = list(_COMMENT.finditer(source))
    if len(found) != 1:
        there = "has no plan" if not found else f"has {len(found)} plans"
        raise CandidateError(f"the source {there}: write the plan once, in a comment that begins with '/* plan.py'")
    match = found[0]
    blank = "\n" * match.group(0).count("\n")
    return Sources(source[: match.start()] + blank + source[match.end() :], match.group(1))


def read_cuda_candidate(path: Path) -> Candidate:
    """A directory with kernel.cu and plan.py, or one file that has both."""
    if not path.is_dir():
        candidate = read_candidate(path, "cuda")
        sources = split(candidate.source)
        return Candidate("cuda", Sources(sources.kernel, sources.plan).joined(), path.name)
    kernel = read_candidate(path / KERNEL_NAME, "cuda").source
    if _COMMENT.search(kernel):
        raise CandidateError(f"{path}: has {PLAN_NAME} and another plan inside {KERNEL_NAME}: keep one")
    plan = read_candidate(path / PLAN_NAME, "cuda").source
    return Candidate("cuda", Sources(kernel, plan).joined(), path.name)
