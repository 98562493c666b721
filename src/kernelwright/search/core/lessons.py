"""What a run has learned from its errors: which there were, and what mended them. A pure function of the state."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from kernelwright.judge.verdict import AuthorVerdict
from kernelwright.judge.wording import SENTENCES, evidence_lines, first_error, unseen_words
from kernelwright.proposers.model import Lesson, Operator
from kernelwright.search.core.state import Entry, Standing, State

MOST = 6
RECENT = 256
LENGTH = 240


def lessons(state: State) -> tuple[Lesson, ...]:
    """Those that were mended first, since they say what to do; of the same fault only the latest.

    Goes back a bounded way: a run of many thousands asks for this as quickly as a short one.
    """
    remedies: dict[str, str] = {}  # by the id of what was repaired: what its first accepted repair says of itself
    mended: dict[str, Lesson] = {}
    open_still: dict[str, Lesson] = {}
    for entry in itertools.islice(reversed(state.entries.values()), RECENT):
        if entry.standing is Standing.accepted and _is_repair(entry):
            said = entry.proposal.note[:LENGTH] or "by a repair without a comment"
            remedies.update(dict.fromkeys(entry.proposal.parents, said))
        elif entry.standing is Standing.rejected and entry.verdict is not None:
            fault = _fault(entry.verdict)
            remedy = remedies.get(entry.proposal.candidate.id, "")
            (mended if remedy else open_still).setdefault(fault, Lesson(fault, remedy))
    others = [lesson for fault, lesson in open_still.items() if fault not in mended]
    return tuple([*_oldest_first(mended.values()), *_oldest_first(others)][:MOST])


def _oldest_first(latest_first: Iterable[Lesson]) -> list[Lesson]:
    return list(itertools.islice(latest_first, MOST))[::-1]


def _is_repair(entry: Entry) -> bool:
    return Operator.repair.value in entry.proposal.origin.split()


def _fault(verdict: AuthorVerdict) -> str:
    """One line of the evidence is enough to recognise it."""
    said = SENTENCES[verdict.reason]
    if unseen := unseen_words(verdict):
        return f"{said} {unseen}"
    lines = evidence_lines(verdict.evidence) if verdict.evidence is not None else []
    return f"{said}: {first_error(lines).lstrip('| ')}"[:LENGTH] if lines else said
