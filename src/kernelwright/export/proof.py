"""What a run proves: its best, the certificates that count, and the task that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts import Candidate
from kernelwright.export.describe import ExportError
from kernelwright.judge import certificate as certificates
from kernelwright.judge.certificate import Certificate
from kernelwright.judge.verdict import Verdict
from kernelwright.search.origin import require_begun_here
from kernelwright.search.run import look
from kernelwright.search.summary import proof_of, why_no_best
from kernelwright.search.task import task_of
from kernelwright.tasks.model import Task


@dataclass(frozen=True)
class Proved:
    """A kernel and what proves it. `verdict` joins the verdicts of the certificates; `task` is as it was judged."""

    candidate: Candidate
    certificates: tuple[Certificate, ...]
    verdict: Verdict
    task: Task

    @property
    def backward(self) -> bool:
        return self.task.direction == "backward"


def proved_in(folder: Path) -> Proved:
    """The best of a run of this installation. Every claim of its journal is checked against certificates that are
    signed here or by a trusted key."""
    require_begun_here(folder)
    state = look(folder)
    if state.best is None:
        raise ExportError(f"{folder}: has no best kernel to export or load: {'; '.join(why_no_best(state))}")
    entry = state.entries[state.best]
    check = proof_of(state.run, entry)
    if check.proof is None:
        raise ExportError(f"{folder}: its best is not proved: {check.why}")
    issued = tuple(certificates.read(certificates.kept(name)) for name in check.proof.names)
    return Proved(entry.proposal.candidate, issued, check.proof.verdict, task_of(state.run).task)


def sorted_by_direction(proved: Sequence[Proved]) -> tuple[tuple[Proved, ...], tuple[Proved, ...]]:
    """Forwards and backwards, all of one task; refuses others."""
    forward = tuple(one for one in proved if not one.backward)
    backward = tuple(one for one in proved if one.backward)
    if not forward:
        raise ExportError("name the run of the forward too: a backward alone cannot be called")
    first = forward[0].certificates[-1].task
    for one in proved:
        task = one.certificates[-1].task
        if task.digest != first.digest or _base(task.name) != _base(first.name):
            raise ExportError(f"{task.name} and {first.name} are different tasks; export them separately")
    return forward, backward


def _base(name: str) -> str:
    """Without direction and sizes."""
    return name.partition("@")[0].removesuffix(":backward")
