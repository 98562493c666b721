"""The proposer `files`: a person with a chat window, or any tool, is the proposer.

Each request is a numbered Markdown file. The answer is a file beside it: `0007.answer.cpp` (or .cu) with the source,
or `0007.answer.md` with the source in its longest block of code. What is written there is never run in here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.candidate import read_candidate
from kernelwright.contracts.cuda.source import split
from kernelwright.judge.verdict import AuthorVerdict
from kernelwright.proposers.model import Operator, Parent, Proposal, Refusal, Request

SUFFIXES = {"cpp": ".cpp", "cuda": ".cu"}
LOOK_SECONDS = 0.5
SETTLED_SECONDS = 0.3  # a file that has not changed for so long is finished
_BLOCK = re.compile(r"^(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<code>.*?)^(?P=fence)[ \t]*$", re.M | re.S)
TUNABLES = "A line `// tunable: BLOCK = 32, 64, 128` defines BLOCK, and has the other values tried as well."
WANTED = {
    Operator.fresh: "Write a new candidate.",
    Operator.sample: "Write a new candidate, unlike any that you would think of first.",
    Operator.mutate: "Write a faster variation of the parent below.",
    Operator.crossover: "Write a candidate that joins what is good in the parents below.",
}


@dataclass(frozen=True)
class Files:
    """`limit`: how many seconds to wait for an answer before a request counts as unanswered."""

    folder: Path
    contract: str
    brief: str
    limit: float
    name: str = "files"
    tell: Callable[[str], None] = lambda text: None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def propose(self, request: Request) -> Sequence[Proposal]:
        """One proposal at most. The same request after a crash finds its own file, and the answer if it is there."""
        prompt = self._prompt(request)
        number, stem = self._numbered(prompt)
        answer = self._wait(stem)
        if answer is None:
            raise Refusal(f"{stem.name}.md: no answer within {self.limit:g} s")
        candidate = replace(read_answer(answer, self.contract), name=f"answer-{number:04d}")
        parents = tuple(parent.proposal.candidate.id for parent in request.parents)
        note = _first_comment(candidate.source)
        return [Proposal(candidate, f"files {number:04d}", note=note, parents=parents, prompt=prompt)]

    def _numbered(self, prompt: str) -> tuple[int, Path]:
        self.folder.mkdir(parents=True, exist_ok=True)
        taken = sorted(self.folder.glob("[0-9]*.md"))
        asked = [path for path in taken if re.fullmatch(r"\d+\.md", path.name)]
        number = max((int(path.stem) for path in asked), default=0)
        last = self.folder / f"{number:04d}.md"
        if number == 0 or last.read_text(encoding="utf-8", errors="replace") != self._page(number, prompt):
            number += 1
            last = self.folder / f"{number:04d}.md"
            last.write_text(self._page(number, prompt), encoding="utf-8")
        self.tell(f"waiting for an answer to {last}")
        return number, last.with_suffix("")

    def _page(self, number: int, prompt: str) -> str:
        suffix = SUFFIXES[self.contract]
        return (
            f"{prompt}\n## Where the answer goes\n\nPut the whole source into `{number:04d}.answer{suffix}` beside "
            f"this file, or an answer with the source in a block of code into `{number:04d}.answer.md`. "
            f"It is waited for {self.limit:g} seconds.\n"
        )

    def _prompt(self, request: Request) -> str:
        parts = [
            self.brief,
            f"# What is asked\n\n{WANTED[request.operator]} (request {request.seed:x})\n\n{TUNABLES}\n",
        ]
        for title, parents in (("Parent", request.parents), ("Accepted before", request.inspirations)):
            parts += [f"## {title}: {_described(parent, self.contract)}" for parent in parents]
        return "\n".join(parts)

    def _wait(self, stem: Path) -> Path | None:
        until = self.clock() + self.limit
        names = [stem.with_name(f"{stem.name}.answer{suffix}") for suffix in (SUFFIXES[self.contract], ".md")]
        while True:
            for path in names:
                if _settled(path):
                    return path
            if self.clock() >= until:
                return None
            self.sleep(min(LOOK_SECONDS, max(0.0, until - self.clock())))


def read_answer(path: Path, contract: str) -> Candidate:
    """The candidate in an answer, or one line that says why there is none."""
    try:
        found = read_candidate(path, contract)
    except CandidateError as error:
        raise Refusal(str(error)) from None
    source = found.source
    if path.suffix == ".md":
        blocks = [match["code"] for match in _BLOCK.finditer(source)]
        if not blocks:
            raise Refusal(f"{path}: has no block of code; put the source between lines of ```")
        source = max(blocks, key=len)
        if not source.strip():
            raise Refusal(f"{path}: its block of code is empty")
    if contract == "cuda":
        try:
            split(source)
        except CandidateError as error:
            raise Refusal(f"{path}: {error}") from None
    return Candidate(contract, source, path.name)


def _settled(path: Path) -> bool:
    try:
        info = path.stat()
    except OSError:
        return False
    return info.st_size > 0 and time.time() - info.st_mtime >= SETTLED_SECONDS


def _described(parent: Parent, contract: str) -> str:
    proposal = parent.proposal
    note = f"{proposal.note}\n\n" if proposal.note else ""
    language = "cuda" if contract == "cuda" else "cpp"
    return (
        f"{proposal.candidate.name} ({proposal.candidate.id})\n\n{note}"
        f"{fared(parent.verdict)}\n\n```{language}\n{proposal.candidate.source.rstrip()}\n```\n"
    )


def fared(verdict: AuthorVerdict) -> str:
    """A verdict in a few lines, for whoever is to write something better."""
    lines = [f"Verdict: {verdict.verdict} ({verdict.reason})."]
    for result in verdict.workloads:
        best = result.best_baseline
        if best is not None and result.seconds is not None:
            lines.append(
                f"- {result.label}: {result.seconds * 1e6:.1f} µs, {best.speedup.mid:.2f} times as fast as "
                f"{best.baseline} ({best.seconds * 1e6:.1f} µs); speed {result.speed}"
            )
    if verdict.evidence is not None:
        lines.append(f"- evidence: {verdict.evidence.model_dump_json()}")
    if verdict.hidden.failed:
        lines.append("- a hidden workload failed")
    return "\n".join(lines)


def _first_comment(source: str) -> str:
    found = re.search(r"//[ \t]*(\S[^\n]*)", source)
    return found[1].strip()[:200] if found else ""
