"""A report as compact Markdown for a pull request.

What others wrote stands in code, in a span or a fence that it cannot end: there it is neither markup, a link nor a
mention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelwright.judge.verdict import BaselineTime, SpeedStatus
from kernelwright.judge.wording import FINDINGS, counted, duration
from kernelwright.report.kernel import BEATS_BOUND
from kernelwright.report.model import (
    KernelView,
    ReportView,
    RunView,
    SearchHistory,
    SourceDiff,
    WorkloadView,
)
from kernelwright.report.text import code_span, fenced, prose

MOST_DIFF = 200  # lines


def markdown(view: ReportView) -> str:
    lines: list[str] = []
    if view.shows_hidden:
        lines += ["> **Auditor's view:** it shows hidden workloads. Do not share it.", ""]
    for run in view.runs:
        lines += [*_run(run), ""]
    lines.append(f"<sub>kernelwright {view.version}; a claim is the lower end of a 95% interval.</sub>")
    return "\n".join(lines) + "\n"


def _run(run: RunView) -> Iterator[str]:
    yield f"## {code_span(run.task)}"
    yield ""
    best = run.best
    if best is None:
        yield f"**No best:** {'; '.join(prose(line, 300) for line in run.no_best)}"
    else:
        yield from _kernel(run, best)
    if run.search is not None:
        yield ""
        yield from _search(run.search)
    if best is not None:
        yield ""
        yield from _proof(best)
    if run.search is not None and run.search.diff is not None:
        yield ""
        yield from diff_lines(run.search.diff, folded=True)


def _kernel(run: RunView, best: KernelView) -> Iterator[str]:
    speed = "speed undecided" if best.score is None else f"**{best.score:.2f}×** over the best baseline"
    yield f"{speed} on {prose(run.device)} ({best.standing_words})"
    for remark in (best.remark, best.why):
        if remark:
            yield f"> {prose(remark, 300)}"
    yield ""
    yield from table(
        ("workload", "kernel", "baseline", "takes", "claim", "95% interval"),
        [row for one in best.workloads for row in _rows(one)] + _hidden(best),
    )
    yield ""
    yield "It holds:"
    yield from (f"- {prose(line, 500)}" for line in best.holds)
    for one in best.errors:
        yield (
            f"- Errors of {code_span(one.result)}: rms {one.rms:.2g} (eager {one.eager_rms:.2g}), "
            f"at most {one.ulp:,.0f} ulp (eager {one.eager_ulp:,.0f}), {one.share:.0%} of the tolerance; "
            f"{FINDINGS[one.finding]}"
        )
    if best.of_bound:
        beaten = best.of_bound == BEATS_BOUND
        yield f"- {best.of_bound.capitalize()}, which is none" if beaten else f"- {best.of_bound} of the bound's speed."
    if best.profile is not None and best.profile.sentence:
        yield f"- Profile: {prose(best.profile.sentence, 500)}"
    yield ""
    yield "It does not hold, or was not checked:"
    yield from (f"- {prose(line, 500)}" for line in best.limits)


def _rows(one: WorkloadView) -> Iterator[tuple[str, ...]]:
    for found in one.result.baselines:
        first = found is one.result.baselines[0]
        name = f"{code_span(one.name, cell=True)}{' (hidden)' if one.result.hidden else ''}" if first else ""
        took = duration(one.result.seconds) if first and one.result.seconds else ""
        yield name, took, code_span(found.baseline, cell=True), duration(found.seconds), *claim_cells(one, found)


def claim_cells(one: WorkloadView, found: BaselineTime) -> tuple[str, str]:
    """What may be claimed, and the interval; in brackets where the speed is undecided."""
    low = f"{found.speedup.low:.2f}×"
    decided = one.result.speed is SpeedStatus.measured
    status = one.result.speed.value.replace("_", " ")
    return f"**{low}**" if decided else f"undecided ({status})", f"[{found.speedup.low:.2f}, {found.speedup.high:.2f}]"


def _hidden(best: KernelView) -> list[tuple[str, ...]]:
    if not best.hidden.judged or best.hidden.workloads:
        return []
    claim = "" if best.hidden.claim is None else f"**{best.hidden.claim:.2f}×**"
    return [(counted(best.hidden.judged, "hidden workload"), "", "", "", claim, "mean claim")]


def _search(search: SearchHistory) -> Iterator[str]:
    cost = search.cost
    models = f", {counted(cost.calls, 'call')} of models, ${cost.usd:.2f}" if cost.calls else ""
    yield (
        f"Search: {counted(cost.evaluations, 'evaluation')}, {duration(cost.wall_seconds)}, "
        f"{counted(len(search.candidates), 'candidate')}, {len(search.rejected)} of them rejected or left undecided"
        f"{models}; lineage {' → '.join(f'{one.number:04d}' for one in search.ancestors) or 'none'}."
    )
    for line in search.suspects:
        yield f"> {prose(line, 400)}"


def _proof(best: KernelView) -> Iterator[str]:
    if not best.certificates:
        yield "No certificate is here."
        return
    yield "Replay:"
    yield ""
    yield fenced("\n".join(one.replay for one in best.certificates), "sh")


def diff_lines(diff: SourceDiff, *, folded: bool = False) -> Iterator[str]:
    marks = {"added": "+", "removed": "-", "same": " ", "place": ""}
    shown = diff.lines[:MOST_DIFF]
    left_out = len(diff.lines) - len(shown) + diff.left_out
    about = f"{counted(diff.added, 'line')} added, {counted(diff.removed, 'line')} removed"
    if folded:
        yield f"<details><summary>Diff: {about}</summary>"
        yield ""
    yield f"{prose(diff.before)} → {prose(diff.after)}"
    yield ""
    yield fenced("\n".join(f"{marks[line.kind]}{line.text}" for line in shown), "diff")
    if left_out:
        yield f"{counted(left_out, 'line')} of the diff left out."
    if folded:
        yield ""
        yield "</details>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Cells are Markdown of ours, with texts of others in spans for cells."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
