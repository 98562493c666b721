"""What a run has learned from its errors: which there were, and what mended them. A pure function of the state."""

from __future__ import annotations

from kernelwright.judge.verdict import AuthorVerdict
from kernelwright.judge.words import SENTENCES, evidence_lines
from kernelwright.proposers.model import Lesson, Operator
from kernelwright.search.state import Entry, Standing, State

MOST = 6
LENGTH = 240


def lessons(state: State) -> tuple[Lesson, ...]:
    """Those that were mended first, since they say what to do; of the same fault only the latest."""
    mended: dict[str, Lesson] = {}
    open_still: dict[str, Lesson] = {}
    remedies = _remedies(state)
    for entry in state.entries.values():
        if entry.standing is not Standing.rejected or entry.verdict is None:
            continue
        fault = _fault(entry.verdict)
        remedy = remedies.get(entry.proposal.candidate.id, "")
        kept = mended if remedy else open_still
        kept.pop(fault, None)
        kept[fault] = Lesson(fault, remedy)
    others = [lesson for fault, lesson in open_still.items() if fault not in mended]
    return tuple([*list(mended.values())[-MOST:], *others[-MOST:]][:MOST])


def _remedies(state: State) -> dict[str, str]:
    """By the id of what was repaired: what its first accepted repair says of itself."""
    found: dict[str, str] = {}
    for entry in state.entries.values():
        if entry.standing is Standing.accepted and _is_repair(entry):
            for parent in entry.proposal.parents:
                found.setdefault(parent, entry.proposal.note[:LENGTH] or "by a repair without a comment")
    return found


def _is_repair(entry: Entry) -> bool:
    return Operator.repair.value in entry.proposal.origin.split()


def _fault(verdict: AuthorVerdict) -> str:
    """The first line of the evidence is enough to recognise it."""
    said = SENTENCES[verdict.reason]
    if verdict.hidden.failed:
        return f"{said} on sizes that are not public"
    lines = evidence_lines(verdict.evidence) if verdict.evidence is not None else []
    return f"{said}: {lines[0].lstrip('| ')}"[:LENGTH] if lines else said
