"""The proposer `files`: a person with a chat window, or any tool, is the model.

Each request is a numbered Markdown file with the very prompt that `llm` would send. The answer is a file beside it:
`0007.answer.cpp` (or .cu) with the source, or `0007.answer.md` as a model would answer. What is written there is never
run in here.

An author may have fewer rights than this process. So nothing is read from the folder of requests but answers,
no link in it is followed, and what was asked is kept in a folder of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts import CandidateError
from kernelwright.contracts.candidate import read_candidate
from kernelwright.contracts.registry import contract_named
from kernelwright.paths import write_whole
from kernelwright.proposers.llm.answers import Answer, as_candidate, checked_source, note_of, read_answer
from kernelwright.proposers.llm.context import PromptContext, edited_parent, stage_of
from kernelwright.proposers.llm.prompts import page, render
from kernelwright.proposers.model import Once, Proposal, Refusal, Request, Unanswered

LOOK_SECONDS = 0.5
SETTLED_SECONDS = 0.3  # a file that has not changed for so long is finished
Look = tuple[int, int, int]  # what changes when a file does


@dataclass(frozen=True)
class Files:
    """`limit`: how many seconds to wait for an answer before a request counts as unanswered.

    Several requests may be open at once, each in a thread of its own.
    """

    folder: Path
    asked: Path  # where this process alone writes: each request as it was asked
    ground: Once[PromptContext]  # made with the first request: by then the device's peaks have been measured
    contract: str
    limit: float
    name: str = "files"
    tell: Callable[[str], None] = lambda text: None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def propose(self, request: Request) -> Sequence[Proposal]:
        """One proposal at most. The same request after a crash finds its own file, and the answer if it is there."""
        prompt = self._written(request)
        path = self._wait(request.number)
        if path is None:
            raise Unanswered(f"{request.number:04d}.md: no answer within {self.limit:g} s")
        text, answer = read_file(path, self.contract, edited_parent(request))
        return [
            Proposal(
                as_candidate(answer, self.contract, f"answer-{request.number:04d}"),
                f"files {stage_of(request)} {request.number:04d}",
                note=answer.note,
                parents=tuple(parent.proposal.candidate.id for parent in request.parents),
                prompt=prompt,
                answer=text,
            )
        ]

    def _written(self, request: Request) -> str:
        """The prompt, made now or kept from before, where an answer to it is waited for.

        What was asked once is not changed. Whatever lies in its place gives way.
        """
        path = self.folder / f"{request.number:04d}.md"
        try:
            prompt = self._asked(request)
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, (prompt + self._place(request.number)).encode())
        except OSError as error:
            raise Refusal(f"{path}: cannot be written: {error.strerror}") from None
        self.tell(f"waiting for an answer to {path}")
        return prompt

    def _asked(self, request: Request) -> str:
        kept = self.asked / f"{request.number:04d}.md"
        try:
            return kept.read_bytes().decode(errors="replace")
        except FileNotFoundError:
            prompt = page(render(self.ground().view(request)))
        self.asked.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(kept, prompt.encode(), mode=0o600)
        return prompt

    def _place(self, number: int) -> str:
        suffix = contract_named(self.contract).suffixes[0]
        return (
            f"\n## Where the answer goes\n\nPut the answer, as it is asked for above, into `{number:04d}.answer.md` "
            f"beside this file, or the whole source alone into `{number:04d}.answer{suffix}`.\n"
        )

    def _wait(self, number: int) -> Path | None:
        """The answer, once two looks at it are the same. One that is there when time is up gets its second look."""
        until = self.clock() + self.limit
        suffixes = (contract_named(self.contract).suffixes[0], ".md")
        names = [self.folder / f"{number:04d}.answer{suffix}" for suffix in suffixes]
        seen: dict[Path, Look] = {}
        while True:
            over = self.clock() >= until
            before, seen = seen, _looks(names)
            for path, look in seen.items():
                if before.get(path) == look:
                    return path
            if over and seen.keys() <= before.keys():
                return None
            self.sleep(SETTLED_SECONDS if seen else min(LOOK_SECONDS, max(0.0, until - self.clock())))


def read_file(path: Path, contract: str, parent: str | None = None) -> tuple[str, Answer]:
    """What an answer's file holds and the source in it, or one line that says why there is none."""
    try:
        text = read_candidate(path, contract, links=False).source
        if path.suffix == ".md":
            return text, read_answer(text, contract, parent)
        checked_source(text, contract)
        return text, Answer(text, note_of("", text), edited=False)
    except (CandidateError, Refusal) as error:
        said = str(error)
        raise Refusal(said if said.startswith(str(path)) else f"{path}: {said}") from None


def _looks(paths: Iterable[Path]) -> dict[Path, Look]:
    """Of those that are there and hold something. Dates are compared with each other, not with a clock of ours."""
    found: dict[Path, Look] = {}
    for path in paths:
        try:
            info = os.lstat(path)
        except OSError:
            continue
        if info.st_size > 0:
            found[path] = (info.st_ino, info.st_size, info.st_mtime_ns)
    return found
