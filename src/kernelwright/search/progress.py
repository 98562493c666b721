"""What a search tells as it goes on: candidates and what became of them, each as a value that prints as a line."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.contracts.registry import contract_named
from kernelwright.judge.verdict import SpeedStatus
from kernelwright.judge.wording import SENTENCES, about_times, key_line, library_words, shortened, unseen_words
from kernelwright.search.core.events import Abandoned, Evaluated, Event, FinalHeld, Refused, Reviewed, Stopped
from kernelwright.search.core.state import State

WIDTH = 160  # of a line
LEAST_WIDTH = 20
ANSWERS = "files"  # the proposer whose candidates are files that a person wrote


@dataclass(frozen=True)
class SearchProgress:
    """Something that happened in a search, or that the judge is doing; printed, a line.

    `outcome` is accepted, rejected, undecided or abandoned for a candidate that was judged quickly, best, not best or
    undecided after a final, and refused or stopped. `estimate` and `score` are factors over the best baseline.
    """

    text: str
    candidate: int | None = None
    outcome: str | None = None
    estimate: float | None = None
    score: float | None = None

    def __str__(self) -> str:
        return self.text


def progress_of(event: Event, state: State, width: int = WIDTH) -> SearchProgress | None:
    """What a person wants to know of an event, if anything."""
    match event:
        case Evaluated(number=number, estimate=estimate):
            name = f"{_named(number, state)}  "
            text = name + shortened(_outcome(event), max(LEAST_WIDTH, width - len(name)))
            return SearchProgress(text, number, event.verdict.verdict.value, estimate)
        case FinalHeld(challenger=number):
            outcome = "best" if event.won else "undecided" if event.undecided else "not best"
            words = {"best": "won, it is the new best", "undecided": "undecided", "not best": "lost"}[outcome]
            text = f"{number:04d}  final {words}: {event.why}"
            return SearchProgress(text, number, outcome, event.estimate, event.score)
        case Abandoned(number=number):
            return SearchProgress(f"{number:04d}  abandoned: {event.why}", number, "abandoned")
        case Refused() if event.told:
            return SearchProgress(f"refused: {event.name} {event.why}", outcome="refused")
        case Reviewed(number=number) if event.suspected:
            reviewers = f"{event.against} of {event.votes} reviewers"
            return SearchProgress(f"{number:04d}  {reviewers} suspect that it cheats: {event.reason}", number)
        case Stopped():
            return SearchProgress(f"stopped: {event.reason.replace('_', ' ')} {event.detail}", outcome="stopped")
    return None


def line_of(event: Event, state: State, width: int = WIDTH) -> str | None:
    found = progress_of(event, state, width)
    return None if found is None else found.text


def _named(number: int, state: State) -> str:
    """Its number, and the file that a person put there as an answer, which has a number of its own."""
    entry = state.entries.get(number)
    if entry is None or entry.request is None or not entry.proposal.origin.startswith(f"{ANSWERS} "):
        return f"{number:04d}"
    candidate = entry.proposal.candidate
    suffix = contract_named(candidate.contract).suffixes[0] if entry.proposal.answer == candidate.source else ".md"
    return f"{number:04d} ({entry.request:04d}.answer{suffix})"


def _outcome(event: Evaluated) -> str:
    verdict = event.verdict
    if event.estimate is not None:
        noisy = any(result.speed is SpeedStatus.noisy for result in verdict.workloads)
        library = f", {library_words(verdict.library)}" if verdict.library else ""
        speed = f"{about_times(event.estimate)} (estimate{', too noisy to trust' if noisy else ''})"
        return f"{verdict.verdict}, {speed}{library}"
    why = key_line(verdict.evidence) if verdict.evidence is not None else unseen_words(verdict)
    return f"{verdict.verdict}: {SENTENCES[verdict.reason]}" + (f": {why}" if why else "")
