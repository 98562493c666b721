"""Where a run stands, in Markdown and in words: for summary.md, `runs show` and the end of `optimize`.

Also which certificates prove its best. They lie outside of the run's directory, and only an auditor may read them.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from kernelwright.judge import certificate as certificates
from kernelwright.judge.certificate import Certificate, CertificateError
from kernelwright.judge.strangers.trusted import signature_of
from kernelwright.judge.verdict import AuthorVerdict, JudgeEvidence, Outcome, SpeedStatus, Verdict
from kernelwright.judge.wording import about_times, counted, domain_words, library_words, precision_words, shortened
from kernelwright.search.core.events import Ask, Started, StopReason
from kernelwright.search.core.score import beats_bound, fraction_of_bound, most, pooled, ratio, score
from kernelwright.search.core.state import Entry, Standing, State

STOPPED = {
    StopReason.budget: "the budget is used up",
    StopReason.at_the_bound: "it reached the bound",
    StopReason.plateau: "no candidate was faster for a while",
    StopReason.exhausted: "the proposer has no more candidates",
    StopReason.unanswered: "no answer came",
    StopReason.interrupted: "it was interrupted",
    StopReason.failed: "this machine could not go on",
}
SHOWN = 10
SAME_SCORE = 1e-9
CELL, REASON = 80, 200  # characters


@dataclass(frozen=True)
class Proof:
    """`verdict` joins the judgings of the final that was won, and of no other: an undecided one of before is not what
    the score is of. Each of the named certificates can be replayed."""

    verdict: Verdict
    names: tuple[str, ...]


@dataclass(frozen=True)
class ProofCheck:
    """`why` says what is missing where there is no proof."""

    proof: Proof | None = None
    why: str = ""


def proof_of(run: Started, entry: Entry) -> ProofCheck:
    """What proves the score that a journal has for a candidate. A journal can be edited, and names certificates: each
    must lie in this installation's own state, be signed by a key that is trusted, be about this candidate and this
    task, and all of them together must say what the journal says."""
    verdict: Verdict | None = None
    names = []
    for name in entry.final.proof:
        try:
            issued = certificates.read(certificates.kept(name))
            fault = _not_about(issued, run, entry)
        except CertificateError as error:
            return ProofCheck(why=str(error))
        if fault:
            return ProofCheck(why=f"{name}: {fault}")
        if issued.settings.public_only or not issued.settings.safety:
            continue  # a quick judging proves nothing
        verdict = issued.verdict if verdict is None else pooled(verdict, issued.verdict)
        names.append(name)
    if verdict is None:
        return ProofCheck(why="there is no certificate of its final")
    proved = score(verdict)
    if proved is None or entry.score is None or not math.isclose(proved, entry.score, rel_tol=SAME_SCORE):
        said = "no speed" if proved is None else f"{proved:.2f}×"
        return ProofCheck(why=f"its certificates prove {said}, and the journal says otherwise")
    return ProofCheck(Proof(verdict, tuple(names)))


def _not_about(issued: Certificate, run: Started, entry: Entry) -> str:
    """Why a certificate does not prove anything of this candidate in this run; empty where it does."""
    signed = signature_of(issued)
    if not signed.trusted:
        return str(signed)
    if issued.candidate.id != entry.proposal.candidate.id:
        return "is about another candidate"
    if (issued.task.name, issued.task.digest) != (run.task_name, run.task_digest):
        return "is about another task"
    if issued.verdict.verdict is Outcome.rejected:
        return "says that the candidate is rejected"
    return ""


def why_stopped(state: State) -> str:
    if state.stopped is None:
        return "not stopped: it is running, or was killed"
    detail = f" ({state.stopped.detail})" if state.stopped.detail else ""
    reason = STOPPED[state.stopped.reason]
    if state.stopped.reason is StopReason.budget and state.budget.exceeded(state.spent) is None:
        return f"it stopped within its budget{detail}; {_budget_use(state)}"
    return f"{reason}{detail}"


def _budget_use(state: State) -> str:
    """What a budget that is not used up went to."""
    held = f"finals of {counted(len(state.finalists), 'candidate')}" if state.finalists else "no final"
    judged = f"quick judgings of {counted(state.evaluated, 'candidate')}"
    return f"used: {state.budget.gone(state.spent)}, for {judged} and {held}"


def refused_words(refused: int, duplicates: int) -> str:
    """Of proposals that cost no evaluation; `refused` is how many, `duplicates` those of them that repeat another."""
    same = f", {counted(duplicates, 'duplicate')} of earlier candidates left out" if duplicates else ""
    return f"{refused - duplicates} refused before judging{same}"


def lineage(state: State, entry: Entry) -> list[Entry]:
    """Its ancestors by first parents, the oldest first, and itself."""
    line, seen = [entry], {entry.number}
    while parents := line[-1].proposal.parents:
        number = state.by_id.get(parents[0])
        if number is None or number in seen:
            break
        seen.add(number)
        line.append(state.entries[number])
    return line[::-1]


def gain_over_start(state: State) -> str | None:
    """How much faster the best is than what the user began with, on public workloads."""
    if state.best is None or not state.starts or state.best in state.starts:
        return None
    best = state.entries[state.best].verdict
    lines = []
    for number in state.starts:
        start = state.entries[number]
        if best is None or start.verdict is None or start.standing is not Standing.accepted:
            continue
        found = ratio(best, start.verdict)
        if found is not None:
            lines.append(f"{found.low:.2f}× over {start.proposal.candidate.name} [{found.low:.2f}, {found.high:.2f}]")
    return "; ".join(lines) or None


def no_gain(score: float | None, verdict: Verdict | AuthorVerdict | None) -> str | None:
    """What to say of a best that is not shown to beat the baseline: the best of slow ones is best, too."""
    if score is None or verdict is None or score >= 1:
        return None
    found = most(verdict)
    if found is None or found < 1:
        return "the best baseline is still faster: keep using it"
    return "not proved faster than the best baseline: the interval reaches below 1"


def why_no_best(state: State) -> list[str]:
    """Of a run without a best: a line on why, and one on the fastest, where there is one."""
    lines = [unproved(state), *_unjudged(state)]
    if state.leader is not None:
        entry = state.entries[state.leader]
        spent = state.stopped is not None and state.stopped.reason is StopReason.budget
        none = entry.why or ("no budget was left for its final" if spent else "it has not had a final yet")
        why = f"its final: {entry.why}" if entry.final.finals else none
        about = f"{about_times(entry.estimate or 0.0)} in quick runs, which proves nothing"
        lines.append(f"the fastest so far is {entry.number:04d}, {about}; {why}")
    return lines


def unproved(state: State) -> str:
    """How far candidates got in a run without a best."""
    judged = [entry for entry in state.entries.values() if entry.standing is not Standing.queued]
    if not judged:
        return "no evaluation finished within the budget" if state.spent.evaluations else "nothing was judged yet"
    accepted = [entry for entry in judged if entry.standing is Standing.accepted]
    if not accepted:
        return f"none of {counted(len(judged), 'candidate')} was accepted"
    said = f"{counted(len(accepted), 'candidate')} accepted"
    finalists = [entry for entry in accepted if entry.final.finals]
    if not finalists:
        return f"{said}, none finished a final"
    undecided = undecided_finals(state)
    if not undecided:
        return f"{said}, none won its final"
    were = "was" if undecided == 1 else "were"
    return f"{said}; {counted(undecided, 'final')} {were} left undecided (too noisy to tell)"


def undecided_finals(state: State) -> int:
    """How many candidates had a final that the machine was too noisy to decide."""
    accepted = (entry for entry in state.entries.values() if entry.standing is Standing.accepted)
    return sum(bool(entry.final.finals) and entry.score is None for entry in accepted)


def _unjudged(state: State) -> list[str]:
    """Where the judge itself failed, which is not the kernel's fault: how often, and why the first time."""
    failed = [
        entry.verdict.evidence.message
        for entry in state.entries.values()
        if entry.verdict is not None and isinstance(entry.verdict.evidence, JudgeEvidence)
    ]
    if not failed:
        return []
    return [f"the judge failed on {counted(len(failed), 'candidate')}: {shortened(failed[0], 300)}"]


def of_the_bound(state: State, verdict: AuthorVerdict) -> str | None:
    """The part of the bound's speed that it reaches, and a word where that cannot be."""
    reached = fraction_of_bound(verdict, state.run.bounds)
    if reached is None:
        return None
    beaten = beats_bound(verdict, state.run.bounds)
    return f"{reached:.0%}" + (
        " (faster than the bound, which is wrong here: a measured peak is too low, or another unit did the work)"
        if beaten
        else ""
    )


def time_spent(state: State) -> str:
    """What the wall time was spent on."""
    return state.times.in_words(state.spent.wall, state.run.judges)


def generic_steps(state: State) -> tuple[str, ...]:
    """Of the best kernel or, where there is none, of the first candidate: what it computes correctly and not fast."""
    entry = state.entries.get(state.best) if state.best is not None else None
    entry = entry or next(iter(state.entries.values()), None)
    return entry.proposal.generic if entry is not None else ()


def beats_baseline(state: State) -> bool:
    """Whether there is a best, and it is shown to be faster than the best baseline."""
    best = None if state.best is None else state.entries[state.best]
    return best is not None and best.score is not None and best.score >= 1


def is_proved(state: State) -> bool:
    """Whether certificates that are kept here prove what the journal says of the best."""
    return state.best is not None and proof_of(state.run, state.entries[state.best]).proof is not None


def money(state: State) -> str:
    """What the models took."""
    unknown = f", and {counted(state.unpriced, 'call')} without a known price" if state.unpriced else ""
    return (
        f"{counted(state.calls, 'call')} of models, {counted(state.tokens, 'token')}, ${state.spent.usd:.2f}{unknown}"
    )


def reviewed(entry: Entry) -> str | None:
    review = entry.review
    if review is None:
        return None
    if not review.votes:
        return "no model could be asked whether it is honest"
    if not review.against:
        return f"{review.votes} of {review.votes} reviewers found nothing dishonest"
    return f"{review.against} of {review.votes} reviewers have doubts: {review.reason}"


def suspects(state: State) -> list[str]:
    """Challengers that the judge accepted and reviewers did not: none is called best until a person has looked."""
    return [
        f"{entry.number:04d} needs a human look: {reviewed(entry)}"
        for entry in state.entries.values()
        if entry.review is not None and entry.review.suspected
    ]


def summary(state: State) -> str:
    run = state.run
    lines = [
        f"# {run.task_name}: {run.policy} with {run.proposer} ({run.contract} on {run.device}, seed {run.seed})",
        "",
        f"- stopped: {why_stopped(state)}",
        f"- spent: {counted(state.spent.evaluations, 'evaluation')}, {state.spent.wall:.0f} s "
        f"({time_spent(state)}); left: {state.budget.left(state.spent)}",
        *([f"- models: {money(state)}"] if state.calls else []),
        f"- candidates: {len(state.entries)} ({_counts(state)}), {refused_words(state.refused, state.duplicates)}",
        *_best(state),
        *(f"- {line}" for line in suspects(state)),
        "",
        "## The fastest, by estimate",
        "",
        "Median speedups on public workloads, from the quick judging and from the last final. They rank parents (the "
        "final's where there is one, since it has more trials) and prove nothing.",
        "",
        "| candidate | quick | final | score | origin | what it does |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for _, number in state.fastest[:SHOWN]:
        entry = state.entries[number]
        final = entry.estimate if entry.final.finals or entry.final.last_at else None
        values = " | ".join("" if value is None else f"{value:.3f}" for value in (entry.quick, final, entry.score))
        origin, note = (_cell(text) for text in (entry.proposal.origin, entry.proposal.note))
        lines.append(f"| {number:04d} | {values} | {origin} | {note} |")
    waiting = [action.request for action in state.pending.values() if isinstance(action, Ask)]
    if waiting and not run.lockstep:
        lines += ["", f"Waiting for answers to: {', '.join(f'requests/{number:04d}.md' for number in waiting)}"]
    if state.refusals:
        lines += ["", "## The last answers that were refused", ""]
        told = ((one.request, shortened(f"{one.name} {one.why}", REASON)) for one in state.refusals)
        lines += [f"- request {request:04d}: {why}" for request, why in told]
    return "\n".join(lines) + "\n"


def _best(state: State) -> list[str]:
    if state.best is None:
        return [f"- best: none yet; {unproved(state)}"]
    entry = state.entries[state.best]
    assert entry.verdict is not None
    lines = [f"- best: {entry.number:04d} ({entry.proposal.candidate.id}), score {entry.score:.3f}: {entry.why}"]
    slower = no_gain(entry.score, entry.verdict)
    if slower:
        lines.append(f"- **{slower}**")
    reached = of_the_bound(state, entry.verdict)
    if reached is not None:
        lines.append(f"- share of the bound's speed, on the workload furthest from it: {reached}")
    gain = gain_over_start(state)
    if gain:
        lines.append(f"- gain over the start: {gain}")
    for result in entry.verdict.workloads:
        best = result.best_baseline
        if best is not None and result.speed is SpeedStatus.measured:
            lines.append(
                f"- {result.label}: {best.speedup.low:.2f}× over {best.baseline} "
                f"[{best.speedup.low:.2f}, {best.speedup.high:.2f}]"
            )
    if entry.verdict.domain is not None:
        lines.append(f"- {domain_words(entry.verdict)}")
    if entry.verdict.library:
        lines.append(f"- {library_words(entry.verdict.library)}")
    if errors := precision_words(entry.verdict):
        lines.append(f"- errors: {errors}")
    review = reviewed(entry)
    if review:
        lines.append(f"- review: {review}")
    lines.append(f"- certificates: {', '.join(entry.final.proof) or 'none'}")
    if entry.chosen and entry.proposal.parents:
        lines.append(f"- its parents were chosen because: {entry.chosen}")
    lines.append("- lineage: " + " → ".join(f"{one.number:04d}" for one in lineage(state, entry)))
    return lines


def _counts(state: State) -> str:
    counts = Counter(entry.standing for entry in state.entries.values())
    return ", ".join(f"{counts[one]} {one}" for one in Standing if counts[one]) or "none yet"


def _cell(text: str) -> str:
    return shortened(text, CELL).replace("|", "\\|")
