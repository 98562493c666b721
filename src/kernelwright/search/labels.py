"""Past runs as material for calibrating verifiers: candidates with their verdicts, and what judging them took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.proposers.llm.labelled import Labelled, from_verdict
from kernelwright.search.events import Evaluated
from kernelwright.search.journal import read
from kernelwright.search.run import look
from kernelwright.search.state import Standing


@dataclass(frozen=True)
class Past:
    """`seconds`: of an evaluation, on average; None: there was none. `faulty`: the part that was rejected."""

    labelled: tuple[Labelled, ...]
    seconds: float | None
    faulty: float | None


def from_runs(folders: Sequence[Path]) -> Past:
    labelled: list[Labelled] = []
    seconds: list[float] = []
    rejected = judged = 0
    for folder in folders:
        state = look(folder)
        for entry in state.entries.values():
            if entry.verdict is None:
                continue
            judged += 1
            rejected += entry.standing is Standing.rejected
            found = from_verdict(state.run.task, entry.proposal.candidate, entry.verdict)
            if found is not None:
                labelled.append(found)
        seconds += [event.seconds / event.judgings for event in read(folder) if isinstance(event, Evaluated)]
    mean = sum(seconds) / len(seconds) if seconds else None
    return Past(tuple(labelled), mean, rejected / judged if judged else None)
