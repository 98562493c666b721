"""What replays came to: one in lines, many in a table."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from kernelwright.archives import SEPARATOR
from kernelwright.cli.views.output import CLAIMED, plain
from kernelwright.judge.certificate import Certificate
from kernelwright.judge.replay import Replay
from kernelwright.judge.strangers.trusted import SignedBy
from kernelwright.judge.verdict import Outcome, SpeedStatus, Verdict
from kernelwright.judge.wording import counted, shortened


class ReplayStanding(StrEnum):
    """What became of one of many certificates. `skipped`: for a device that is not here. `refused`: it cannot be read,
    or is not replayed for what it asks."""

    same = "same"
    not_the_same = "not the same"
    undecided = "undecided"
    skipped = "skipped"
    refused = "refused"


class ReplayedCertificate(BaseModel):
    """`then` and `now` are outcomes, with the least lower end over the best baseline where speeds were measured."""

    name: str
    standing: ReplayStanding
    why: str = ""
    task: str = ""
    candidate: str = ""
    signature: SignedBy | None = None
    then: str = ""
    now: str = ""
    replay: Replay | None = None

    @classmethod
    def of(cls, name: str, issued: Certificate, signed: SignedBy) -> ReplayedCertificate:
        return cls(
            name=name,
            standing=ReplayStanding.refused,
            task=issued.task.name,
            candidate=issued.candidate.id,
            signature=signed,
            then=in_short(issued.verdict),
        )

    def replayed(self, outcome: Replay) -> ReplayedCertificate:
        standing = {
            True: ReplayStanding.same,
            False: ReplayStanding.not_the_same,
            None: ReplayStanding.undecided,
        }[outcome.same]
        return self.model_copy(
            update={
                "standing": standing,
                "now": in_short(outcome.verdict),
                "replay": outcome,
                "why": "" if outcome.same else _why(outcome),
            }
        )


def _why(outcome: Replay) -> str:
    """What differs. An older judge looked at less, so that a rejection now need not contradict it."""
    apart = [speed for speed in outcome.speeds if not speed.overlap]
    now = outcome.verdict
    older = f"; the judge's code is {outcome.judge_code}" if outcome.judge_code != "the same" else ""
    if apart and now.verdict is Outcome.accepted:
        return f"the speedups of {counted(len(apart), 'comparison')} do not overlap{older}"
    if now.verdict is Outcome.undecided:
        return "the judge could not decide now"
    where = f" on {now.evidence.workload}" if now.evidence is not None and hasattr(now.evidence, "workload") else ""
    return f"{now.verdict} now: {now.reason}{where}{older}"


def in_short(verdict: Verdict) -> str:
    if verdict.verdict is not Outcome.accepted:
        return f"{verdict.verdict} ({verdict.reason})"
    measured = [one.best_baseline for one in verdict.workloads if one.speed is SpeedStatus.measured]
    lows = [best.speedup.low for best in measured if best is not None]
    return f"{verdict.verdict}, {min(lows):.2f}×" if lows else f"{verdict.verdict}, no speed"


def exit_code(replayed: Sequence[ReplayedCertificate]) -> int:
    """0 only where something was replayed and everything that was is the same."""
    found = {one.standing for one in replayed}
    if ReplayStanding.not_the_same in found:
        return 1
    if ReplayStanding.undecided in found:
        return 3
    return 2 if ReplayStanding.refused in found or ReplayStanding.same not in found else 0


_COLOURS = {ReplayStanding.same: "green", ReplayStanding.not_the_same: "red", ReplayStanding.undecided: "yellow"}


def show_replays(out: Console, replayed: Sequence[ReplayedCertificate]) -> None:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("certificate", "task", "candidate", "then", "now", "same?", "artefact"):
        table.add_column(title)
    for one in replayed:
        if one.replay is None:
            continue
        counts = "" if one.replay.counts or not one.replay.below else ", does not count"
        if one.standing is ReplayStanding.same and one.replay.not_compared and not one.replay.speeds:
            counts += ", speeds not compared"
        table.add_row(
            *map(plain, (_short(one.name), shortened(one.task, CLAIMED), one.candidate, one.then, one.now)),
            f"[{_COLOURS[one.standing]}]{one.standing}[/]{counts}",
            plain(one.replay.artefact),
        )
    out.print(table)
    for one in replayed:
        if one.why and one.replay is not None:
            out.print(f"  {plain(_short(one.name))} ({plain(one.task)}): {plain(one.why)}", soft_wrap=True)
    _show_grouped(out, "judged on less than today's standard", _below(replayed))
    for standing in (ReplayStanding.skipped, ReplayStanding.refused):
        reasons: dict[str, list[str]] = {}
        for one in replayed:
            if one.standing is standing:
                reasons.setdefault(one.why, []).append(_short(one.name))
        _show_grouped(out, str(standing), reasons)
    compared = [one for one in replayed if one.replay is not None]
    same = sum(one.standing is ReplayStanding.same for one in compared)
    out.print(f"[bold]{same} of {len(compared)} the same[/]; {len(replayed) - len(compared)} not replayed")


def _below(replayed: Sequence[ReplayedCertificate]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in replayed:
        if one.replay is not None and one.replay.below:
            found.setdefault("; ".join(one.replay.below), []).append(_short(one.name))
    return found


def _show_grouped(out: Console, title: str, reasons: dict[str, list[str]]) -> None:
    for reason, names in reasons.items():
        out.print(f"  [yellow]{title}[/]: {plain(reason)} ({plain(', '.join(names))})", soft_wrap=True)


def _short(name: str) -> str:
    return name.rpartition(SEPARATOR)[2].rpartition("/")[2].removesuffix(".json")


def show_replay(out: Console, outcome: Replay) -> None:
    word, colour = {True: ("THE SAME", "green"), False: ("NOT THE SAME", "red"), None: ("UNDECIDED", "yellow")}[
        outcome.same
    ]
    out.print(f"[bold {colour}]{word}[/]  {plain(outcome.outcome)}", soft_wrap=True)
    if outcome.below:
        out.print(
            f"  [yellow]does not count as proof[/]: judged on less than today's standard: "
            f"{plain('; '.join(outcome.below))}",
            soft_wrap=True,
        )
    out.print(
        f"  artefact: {plain(outcome.artefact)}; device: {plain(outcome.device)}; sandbox now: "
        f"{plain(outcome.sandbox)}; judge's code: {plain(outcome.judge_code)}",
        soft_wrap=True,
    )
    for speed in outcome.speeds:
        mark = "overlap" if speed.overlap else "[red]apart[/]"
        then, now = (f"[{low:.2f}, {high:.2f}]" for low, high in (speed.then, speed.now))
        out.print(f"  {plain(speed.workload)} over {plain(speed.baseline)}: {plain(then)}, now {plain(now)}: {mark}")
    if outcome.not_compared:
        out.print(
            f"  not compared: the speeds of {counted(len(outcome.not_compared), 'workload')}, which were not measured "
            "then or now, or are of another device; the certificate's remain a claim",
            soft_wrap=True,
        )
    if outcome.own_hidden:
        out.print(f"  hidden workloads of this judge's own: {plain(', '.join(outcome.own_hidden))}", soft_wrap=True)
