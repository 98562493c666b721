"""The proposer `files`: a person with a chat window, or any tool, is the model.

Each request is a numbered Markdown file with the very prompt that `llm` would send. The answer is a file beside it:
`0007.answer.cpp` (or .cu) with the source, or `0007.answer.md` as a model would answer. What is written there is never
run in here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts import CandidateError
from kernelwright.contracts.candidate import read_candidate
from kernelwright.proposers.llm.answers import Answer, as_candidate, checked_source, note_of, read_answer
from kernelwright.proposers.llm.asking import Ground, edited_parent, stage_of
from kernelwright.proposers.llm.prompts import page, render
from kernelwright.proposers.model import Proposal, Refusal, Request
from kernelwright.proposers.once import Once

SUFFIXES = {"cpp": ".cpp", "cuda": ".cu"}
LOOK_SECONDS = 0.5
SETTLED_SECONDS = 0.3  # a file that has not changed for so long is finished


@dataclass(frozen=True)
class Files:
    """`limit`: how many seconds to wait for an answer before a request counts as unanswered.

    Several requests may be open at once, each in a thread of its own.
    """

    folder: Path
    ground: Once[Ground]  # made with the first request: by then the device's peaks have been measured
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
            raise Refusal(f"{request.number:04d}.md: no answer within {self.limit:g} s")
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
        """The prompt, written now or found from before: what was asked once is not changed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{request.number:04d}.md"
        if path.is_file():
            prompt = path.read_text(encoding="utf-8", errors="replace").partition(self._place(request.number))[0]
        else:
            prompt = page(render(self.ground().view(request)))
            partial = path.with_suffix(".partial")
            partial.write_text(prompt + self._place(request.number), encoding="utf-8")
            partial.rename(path)
        self.tell(f"waiting for an answer to {path}")
        return prompt

    def _place(self, number: int) -> str:
        suffix = SUFFIXES[self.contract]
        return (
            f"\n## Where the answer goes\n\nPut the answer, as it is asked for above, into `{number:04d}.answer.md` "
            f"beside this file, or the whole source alone into `{number:04d}.answer{suffix}`.\n"
        )

    def _wait(self, number: int) -> Path | None:
        until = self.clock() + self.limit
        names = [self.folder / f"{number:04d}.answer{suffix}" for suffix in (SUFFIXES[self.contract], ".md")]
        while True:
            for path in names:
                if _settled(path):
                    return path
            if self.clock() >= until:
                return None
            self.sleep(min(LOOK_SECONDS, max(0.0, until - self.clock())))


def read_file(path: Path, contract: str, parent: str | None = None) -> tuple[str, Answer]:
    """What an answer's file holds and the source in it, or one line that says why there is none.

    Whoever writes answers may have fewer rights than whoever reads them, so that a link is not followed.
    """
    if path.is_symlink():
        raise Refusal(f"{path}: is a link; put the answer itself there")
    try:
        text = read_candidate(path, contract).source
        if path.suffix == ".md":
            return text, read_answer(text, contract, parent)
        checked_source(text, contract)
        return text, Answer(text, note_of("", text), edited=False)
    except (CandidateError, Refusal) as error:
        said = str(error)
        raise Refusal(said if said.startswith(str(path)) else f"{path}: {said}") from None


def _settled(path: Path) -> bool:
    try:
        info = path.stat()
    except OSError:
        return False
    return info.st_size > 0 and time.time() - info.st_mtime >= SETTLED_SECONDS
