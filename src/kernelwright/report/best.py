"""The best proved kernel of each task on a machine, over all runs in some directories.

Claims over different baselines, or with other threads, are of different things: each has a row of its own. Within a row
the highest claim stands; which of two runs is really faster is for `runs compare` to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.judge.certificate import Certificate
from kernelwright.judge.keys import code_hash
from kernelwright.judge.strangers.certified_task import reference_for, require_same_file
from kernelwright.judge.strangers.standard import below_standard
from kernelwright.judge.strangers.trusted import signature_of
from kernelwright.judge.verdict import VerdictPart
from kernelwright.report.model import ProofStanding
from kernelwright.report.proofs import Speaking, speaking_for
from kernelwright.search.core.state import Entry, State
from kernelwright.search.run import look
from kernelwright.search.session import runs_in
from kernelwright.version import __version__


class JudgeMatch(StrEnum):
    """Whether the judge that gave a proof is the one that is installed now."""

    same = "same"
    other_code = "other_code"
    other_version = "other_version"


class BestKernel(VerdictPart):
    """`current`: the same judge's code, nothing below today's standard, and the task's file as it was. `stale` says
    what is not so. `age_days` is that of the proof's last certificate."""

    task: str
    device: str
    contract: str
    baselines: tuple[str, ...]
    threads: int
    claim: float
    candidate: str
    run: str
    number: int
    issued: str
    age_days: float | None
    certificates: tuple[str, ...]
    judge: JudgeMatch
    current: bool
    stale: tuple[str, ...]


class BestOfMachine(VerdictPart):
    """`unproved`: runs whose best nothing here proves, and why. `unread`: runs that cannot be read, and why."""

    kernels: tuple[BestKernel, ...]
    runs: int
    without_best: int
    unproved: tuple[tuple[str, str], ...]
    unread: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Found:
    folder: Path
    state: State
    entry: Entry
    spoken: Speaking


def best_of(roots: Sequence[Path], task: str | None, now: datetime | None = None) -> BestOfMachine:
    """`task` is a name as runs have it, or its part before `@` or `:`, which takes all sizes and directions."""
    unread: list[tuple[str, str]] = []
    found: list[_Found] = []
    count = without = 0
    for folder in dict.fromkeys(path for root in roots for path in runs_in(root)):
        try:
            state = look(folder)
            if task is not None and not _is_named(state.run.task_name, task):
                continue
            count += 1
            if state.best is None:
                without += 1
                continue
            entry = state.entries[state.best]
            found.append(_Found(folder, state, entry, speaking_for(state.run, entry, folder)))
        except KernelwrightError as error:
            unread.append((str(folder), str(error)))
    moment = now or datetime.now(UTC)
    proved = [one for one in found if one.spoken.standing is ProofStanding.proved]
    return BestOfMachine(
        kernels=tuple(sorted(_highest(_kernels(proved, moment)), key=lambda one: (one.task, one.device, -one.claim))),
        runs=count,
        without_best=without,
        unproved=tuple((str(one.folder), one.spoken.why) for one in found if one not in proved),
        unread=tuple(unread),
    )


def _is_named(name: str, wanted: str) -> bool:
    plain = name.partition("@")[0]
    return wanted in (name, plain, plain.partition(":")[0])


def _kernels(found: Iterable[_Found], now: datetime) -> Iterator[BestKernel]:
    for one in found:
        issued = max((each for _, each in one.spoken.certificates), key=lambda each: each.issued)
        assert one.entry.score is not None  # certificates prove it
        judge, stale = _standing(issued)
        yield BestKernel(
            task=one.state.run.task_name,
            device=issued.verdict.conditions.device,
            contract=one.state.run.contract,
            baselines=issued.settings.baselines,
            threads=issued.settings.threads,
            claim=one.entry.score,
            candidate=issued.candidate.id,
            run=str(one.folder),
            number=one.entry.number,
            issued=issued.issued,
            age_days=_days(issued.issued, now),
            certificates=tuple(name for name, _ in one.spoken.certificates),
            judge=judge,
            current=not stale,
            stale=stale,
        )


def _standing(issued: Certificate) -> tuple[JudgeMatch, tuple[str, ...]]:
    environment = issued.environment
    stale = []
    judge = JudgeMatch.same
    if environment.judge_version != __version__:
        judge = JudgeMatch.other_version
        stale.append(f"judged by version {environment.judge_version}, and this is {__version__}")
    elif environment.judge_code != code_hash():
        judge = JudgeMatch.other_code
        stale.append("judged by different code of this version")
    stale += below_standard(issued)
    stale += _task_changes(issued)
    return judge, tuple(stale)


def _task_changes(issued: Certificate) -> list[str]:
    """What a certificate of a stranger names is not opened, trusted or not."""
    signed = signature_of(issued)
    try:
        reference = reference_for(issued, None, signed)
    except KernelwrightError:
        return ["the task's file belongs to another installation, and was not compared"]
    try:
        require_same_file(reference, issued, signed)
    except KernelwrightError:
        return ["the task's file has changed since"]
    return []


def _highest(kernels: Iterable[BestKernel]) -> Iterable[BestKernel]:
    """Of each kind the one with the highest claim by a judge of this version, else of another; of equals the later."""
    best: dict[tuple[object, ...], BestKernel] = {}
    for one in sorted(kernels, key=lambda each: (each.judge is not JudgeMatch.other_version, each.claim, each.issued)):
        best[one.task, one.device, one.contract, one.baselines, one.threads] = one
    return best.values()


def _days(issued: str, now: datetime) -> float | None:
    """None where a stranger wrote something else than a time."""
    try:
        return round(max(0.0, (now - datetime.fromisoformat(issued)).total_seconds() / 86_400), 2)
    except (ValueError, TypeError):
        return None
