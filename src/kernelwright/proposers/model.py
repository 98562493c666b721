"""What a proposer is asked and what it answers. It never judges, and sees verdicts only as their author may."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from kernelwright.contracts import Candidate
from kernelwright.errors import KernelwrightError
from kernelwright.judge.verdict import AuthorVerdict

Gene = int | float | str | bool
# Genes that say which model wrote a candidate and what that cost. No tunable can have such a name.
MEMBER, USD = "llm.member", "llm.usd"
MODEL_GENES = frozenset({MEMBER, USD})
SWEPT = "tunables"  # the first word of the origin of a candidate that a sweep of tunables made


class Refusal(KernelwrightError):  # noqa: N818 - it names an outcome
    """An answer that is not a candidate, in one line. A proposer raises it; a run records it and goes on.

    `final`: there is no use in asking again, because no money is left to ask with.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Unanswered(Refusal):
    """No answer came in time, and one may yet: the request stays open."""


class Operator(StrEnum):
    """What is wanted: something new, a variation of one parent, or a cross of several.

    `fresh` is the best that the proposer can think of, `sample` one drawn by chance alone, for comparison. `repair` is
    for a parent that was rejected, of a proposer that can read why.
    """

    fresh = "fresh"
    sample = "sample"
    mutate = "mutate"
    crossover = "crossover"
    repair = "repair"


@dataclass(frozen=True)
class Proposal:
    """A candidate, and what its proposer wants to remember of it: JSON values only, since a journal keeps them."""

    candidate: Candidate
    origin: str  # "templates row_reduction", "files 003"
    genes: Mapping[str, Gene] = field(default_factory=dict)
    note: str = ""  # what the kernel does, in a sentence
    parents: tuple[str, ...] = ()  # ids of candidates
    prompt: str = ""  # what was asked, where a person or a model was asked
    answer: str = ""  # and what was answered
    generic: tuple[str, ...] = ()  # operations that it computes correctly and not fast, with the author's lines


@dataclass(frozen=True)
class Parent:
    """A candidate of before, with all that its author may know of how it fared."""

    proposal: Proposal
    verdict: AuthorVerdict
    score: float | None  # None: no score, because it was not accepted or its speed is undecided


class Refuse(Protocol):
    """Told of an answer that becomes no proposal: its name, why, whose it was and what it cost."""

    def __call__(self, name: str, why: str, member: str = "", usd: float = 0.0) -> None: ...


def _discard(name: str, why: str, member: str = "", usd: float = 0.0) -> None:
    return None


@dataclass(frozen=True)
class Lesson:
    """An error of this run, and what was done about it; empty while it is not repaired."""

    fault: str
    remedy: str = ""


@dataclass(frozen=True)
class Request:
    """`number` is the same when a run goes on after a crash, and no other request's."""

    operator: Operator
    count: int
    seed: int
    parents: tuple[Parent, ...] = ()
    inspirations: tuple[Parent, ...] = ()  # accepted ones, slowest first
    known: Container[str] = frozenset()  # ids of all candidates of the run: what is proposed again is refused
    number: int = 0
    lessons: tuple[Lesson, ...] = ()
    refuse: Refuse = _discard


@dataclass(frozen=True)
class Honesty:
    """What reviewers think of a challenger. No votes: none could be asked, which is not an objection."""

    votes: int
    against: int
    reason: str = ""


class Reviewer(Protocol):
    def review(self, candidate: Candidate, seed: int) -> Honesty: ...


class Proposer(Protocol):
    @property
    def name(self) -> str: ...

    def propose(self, request: Request) -> Sequence[Proposal]:
        """At most `count` proposals; fewer, or none, when there is nothing left to try.

        A function of the request and of what the proposer was made with: the seed is all the chance there is.
        """


# Something that takes a while to make: made when it is first needed, once, whichever thread needs it.

T = TypeVar("T")


class Once(Generic[T]):
    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._lock = threading.Lock()

    def __call__(self) -> T:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]
