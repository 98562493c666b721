"""A run as a report shows it: everything is folded from its journal and its certificates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from kernelwright.judge.strangers.bounds import OutOfBoundsError, require_bounded
from kernelwright.judge.verdict import AuthorVerdict, WorkloadResult
from kernelwright.judge.wording import SENTENCES, key_line, unseen_words
from kernelwright.llm.model import CallRecord
from kernelwright.report.differences import gene_changes, source_diff, source_files
from kernelwright.report.kernel import kernel_view
from kernelwright.report.model import (
    Ancestor,
    Audience,
    CandidateRow,
    CostView,
    CurvePoint,
    KernelView,
    MemberCost,
    RejectedRow,
    RunView,
    SearchHistory,
    SourceDiff,
)
from kernelwright.report.proofs import certificate_view, speaking_for
from kernelwright.search.core.events import Abandoned, Evaluated, Event, FinalHeld, ModelCalled
from kernelwright.search.core.state import Entry, Standing, State
from kernelwright.search.journal import JournalError
from kernelwright.search.origin import begun_here
from kernelwright.search.run import look
from kernelwright.search.summary import gain_over_start, lineage, reviewed, suspects, why_no_best, why_stopped

MOST = 1e15  # seconds, or times faster
MOST_ANCESTORS = 40
EVIDENCE, NOTE = 300, 400  # characters


@dataclass
class HistoryWatcher:
    """A watcher of a fold: what the state at its end no longer tells."""

    curve: list[CurvePoint] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)

    def __call__(self, event: Event, state: State) -> None:
        match event:
            case Evaluated() | Abandoned():
                final = False if isinstance(event, Evaluated) else state.entries[event.number].final.finals > 0
                self._judged(state, event.number, final=final)
            case FinalHeld():
                self._judged(state, event.challenger, final=True)
            case ModelCalled():
                self.calls.append(event.call)

    def _judged(self, state: State, number: int, *, final: bool) -> None:
        entry = state.entries[number]
        best = None if state.best is None else state.entries[state.best].score
        leader = None if state.leader is None else state.entries[state.leader].estimate
        self.curve.append(
            CurvePoint(
                evaluations=state.spent.evaluations,
                seconds=state.spent.wall,
                number=number,
                kind="final" if final else "evaluation",
                estimate=entry.estimate,
                score=entry.score if final else None,
                best_estimate=leader,
                best_score=best,
            )
        )


def run_view(folder: Path, audience: Audience, archive: str = "") -> RunView:
    """`archive` is the file that the run lies in, where it lies in one."""
    history = HistoryWatcher()
    state = look(folder, history)
    require_plausible(state, history, folder.name)
    run = state.run
    best = None if state.best is None else _best(state, folder, audience, archive)
    return RunView(
        name=folder.name,
        task=run.task_name,
        task_digest=run.task_digest,
        device=_device(state, best),
        contract=run.contract,
        baselines=run.baselines,
        threads=best.conditions.threads if best else run.threads,
        begun_here=begun_here(folder),
        began=_date(run.at),
        best=best,
        no_best=() if best else tuple(why_no_best(state)),
        search=search_view(state, history),
    )


def require_plausible(state: State, history: HistoryWatcher, name: str) -> None:
    """A journal may be a stranger's. What no run has is refused here, so that nothing later divides by it."""
    numbers = [value for one in history.curve for value in (one.estimate, one.score, one.best_estimate, one.best_score)]
    numbers += [result.seconds for entry in state.entries.values() for result in _results(entry)]
    numbers += [
        value
        for entry in state.entries.values()
        for result in _results(entry)
        for one in result.baselines
        for value in (one.seconds, one.speedup.low, one.speedup.mid, one.speedup.high)
    ]
    spent = [state.spent.wall, state.spent.device, state.spent.usd, *(one.seconds for one in history.curve)]
    fine = all(value is None or 0 < value < MOST for value in numbers) and all(0 <= value < MOST for value in spent)
    best = None if state.best is None else state.entries[state.best].verdict
    try:
        require_bounded(None if best is None else best.model_dump(mode="json"))  # the one whose counters are looked at
    except OutOfBoundsError:
        fine = False
    if not fine:
        raise JournalError(
            f"{name}: its journal has figures or texts that no judge gives; nothing in it can be relied on"
        )


def _results(entry: Entry) -> tuple[WorkloadResult, ...]:
    return () if entry.verdict is None else entry.verdict.workloads


def _date(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):  # a stranger's clock
        return ""


def _device(state: State, best: KernelView | None) -> str:
    """As a verdict names it; a journal has only where it was asked for."""
    if best is not None:
        return best.conditions.device
    verdicts = (entry.verdict for entry in state.entries.values() if entry.verdict is not None)
    first = next(verdicts, None)
    return state.run.device if first is None else first.conditions.device


def _best(state: State, folder: Path, audience: Audience, archive: str) -> KernelView:
    assert state.best is not None
    entry = state.entries[state.best]
    spoken = speaking_for(state.run, entry, folder)
    verdict = spoken.verdict or entry.verdict
    assert verdict is not None  # of the final that made it the best
    return kernel_view(
        verdict,
        entry.proposal.candidate,
        audience,
        standing=spoken.standing,
        why=spoken.why,
        score=entry.score,
        number=entry.number,
        origin=entry.proposal.origin,
        note=entry.proposal.note,
        certificates=tuple(certificate_view(name, one, archive) for name, one in spoken.certificates),
        bounds=state.run.bounds,
        review=reviewed(entry) or "",
    )


def search_view(state: State, history: HistoryWatcher) -> SearchHistory:
    best = None if state.best is None else state.entries[state.best]
    return SearchHistory(
        stopped=why_stopped(state),
        settings=_settings(state),
        cost=_cost(state, history.calls),
        curve=tuple(history.curve),
        candidates=tuple(_row(state, entry) for entry in state.entries.values()),
        refused=state.refused,
        duplicates=state.duplicates,
        rejected=tuple(_rejected(entry) for entry in state.entries.values() if entry.standing is not Standing.accepted
                       and entry.standing is not Standing.queued),
        suspects=tuple(suspects(state)),
        ancestors=ancestors(state, best) if best else (),
        diff=_diff(state, best) if best else None,
        gain_over_start=gain_over_start(state) or "",
    )  # fmt: skip


def _settings(state: State) -> tuple[tuple[str, str], ...]:
    run = state.run
    parameters = ", ".join(f"{name}={value}" for name, value in run.policy_parameters.items())
    return (
        ("proposer", run.proposer),
        ("policy", f"{run.policy} ({parameters})" if parameters else run.policy),
        ("seed", str(run.seed)),
        ("budget", str(state.budget) or "no limit"),
        ("baselines", ", ".join(run.baselines)),
        ("plateau", f"{run.plateau} evaluations"),
        ("begun or resumed", f"{state.sessions} times" if state.sessions != 1 else "once"),
    )


def _cost(state: State, calls: Iterable[CallRecord]) -> CostView:
    spent, times = state.spent, state.times
    busy = times.preparation + (times.judging + times.finals) / state.run.judges
    parts = (
        ("preparation", times.preparation),
        ("judging", times.judging / state.run.judges),
        ("finals", times.finals / state.run.judges),
        ("waiting", max(0.0, spent.wall - busy)),
    )
    return CostView(
        evaluations=spent.evaluations,
        wall_seconds=spent.wall,
        device_seconds=spent.device,
        parts=parts,
        calls=state.calls,
        tokens=state.tokens,
        usd=spent.usd,
        unpriced=state.unpriced,
        members=_members(calls),
    )


def _members(calls: Iterable[CallRecord]) -> tuple[MemberCost, ...]:
    by_member: dict[tuple[str, str], list[CallRecord]] = {}
    for call in calls:
        by_member.setdefault((call.member, call.model), []).append(call)
    return tuple(
        MemberCost(
            member=member,
            model=model,
            calls=len(made),
            unanswered=sum(not call.ok for call in made),
            input_tokens=sum(call.usage.input_tokens for call in made),
            output_tokens=sum(call.usage.output_tokens for call in made),
            usd=sum(call.usd or 0.0 for call in made),
            unpriced=sum(call.usd is None for call in made),
        )
        for (member, model), made in by_member.items()
    )


def _row(state: State, entry: Entry) -> CandidateRow:
    proposal = entry.proposal
    return CandidateRow(
        number=entry.number,
        origin=proposal.origin,
        note=proposal.note[:NOTE],
        standing=entry.standing.value,
        reason=_reason(entry),
        quick=entry.quick,
        estimate=entry.estimate,
        score=entry.score,
        parents=_parents(state, entry),
    )


def _parents(state: State, entry: Entry) -> tuple[int, ...]:
    return tuple(number for parent in entry.proposal.parents if (number := state.by_id.get(parent)) is not None)


def _reason(entry: Entry) -> str:
    verdict = entry.verdict
    if verdict is None or entry.standing is Standing.abandoned:
        return entry.why
    return entry.why if entry.standing is Standing.accepted else SENTENCES[verdict.reason]


def _rejected(entry: Entry) -> RejectedRow:
    verdict = entry.verdict
    judged = verdict is not None and verdict.verdict.value == entry.standing.value
    return RejectedRow(
        number=entry.number,
        stage=verdict.stage.value if verdict is not None and judged else "",
        reason=verdict.reason.value if verdict is not None and judged else entry.standing.value,
        sentence=SENTENCES[verdict.reason] if verdict is not None and judged else entry.why or entry.standing.value,
        evidence=_evidence(verdict) if judged else "",
        unseen=unseen_words(verdict) if verdict is not None and judged else "",
        origin=entry.proposal.origin,
        note=entry.proposal.note[:NOTE],
    )


def _evidence(verdict: AuthorVerdict | None) -> str:
    return "" if verdict is None or verdict.evidence is None else key_line(verdict.evidence)[:EVIDENCE]


def ancestors(state: State, best: Entry) -> tuple[Ancestor, ...]:
    """The best and all that it was made from, the oldest first; of very many the nearest to the best."""
    found: dict[int, tuple[int, ...]] = {}
    waiting = [best.number]
    while waiting and len(found) < MOST_ANCESTORS:
        number = waiting.pop(0)
        if number not in found:
            found[number] = _parents(state, state.entries[number])
            waiting += found[number]
    known = {number: tuple(one for one in parents if one in found) for number, parents in found.items()}
    return tuple(_ancestor(state, state.entries[number], known[number]) for number in sorted(known))


def _ancestor(state: State, entry: Entry, parents: tuple[int, ...]) -> Ancestor:
    genes = entry.proposal.genes
    changed = gene_changes(state.entries[parents[0]].proposal.genes, genes) if parents and genes else ()
    return Ancestor(
        number=entry.number,
        origin=entry.proposal.origin,
        note=entry.proposal.note[:NOTE],
        estimate=entry.estimate,
        score=entry.score,
        parents=parents,
        changes=changed,
    )


def _diff(state: State, best: Entry) -> SourceDiff | None:
    """Against what the user began with, else the oldest ancestor, else the first that was accepted."""
    oldest = lineage(state, best)[0]
    if state.starts:
        start = oldest if oldest.number in state.starts else state.entries[state.starts[0]]
        what = "the start"
    elif oldest.number != best.number:
        start, what = oldest, "the oldest ancestor"
    else:
        accepted = [state.entries[number] for number in state.accepted if number != best.number]
        if not accepted:
            return None
        start, what = accepted[0], "the first candidate that was accepted"
    if start.number == best.number:
        return None
    return source_diff(
        source_files(start.proposal.candidate),
        source_files(best.proposal.candidate),
        f"{start.number:04d} ({what})",
        f"{best.number:04d} (the best)",
    )
