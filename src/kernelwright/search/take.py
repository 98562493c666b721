"""From what a proposer answered to events: new candidates are numbered, others refused in one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError

from kernelwright.contracts.candidate import MAX_BYTES
from kernelwright.contracts.registry import fingerprint
from kernelwright.contracts.tunables import TunableError, render, variants
from kernelwright.errors import KernelwrightError
from kernelwright.judge.wording import shortened
from kernelwright.proposers.llm.answers import NOTE_LENGTH
from kernelwright.proposers.model import MEMBER, SWEPT, USD, Proposal, Refusal
from kernelwright.search.core.archive import is_swept
from kernelwright.search.core.events import Answered, Event, Proposed, Refused
from kernelwright.search.core.state import Entry, State

MOST_VARIANTS = 12
NAME_LENGTH = 60
MOST_GENERIC = 32  # lines about slow steps that are kept of a proposal


def take(
    state: State, request: int, island: int, proposals: Sequence[Proposal], at: float, seconds: float
) -> tuple[Event, ...]:
    """Everything that follows from one answer, to be journalled together."""
    events: list[Event] = []
    seen: dict[str, int] = {}
    number = len(state.entries)
    for proposal in proposals:
        try:
            proposed = as_event(state, proposal, number + 1, request, island, at)
        except KernelwrightError as error:
            member, usd = _written(proposal)
            events.append(refused(request, _name(proposal), _line(error), member, usd, at))
            continue
        there = state.by_fingerprint.get(proposed.fingerprint) or seen.get(proposed.fingerprint)
        if there is not None:
            events.append(_duplicate(proposal, there, request, at))
            continue
        number += 1
        seen[proposed.fingerprint] = number
        events.append(proposed)
    return (*events, Answered(at=at, request=request, taken=len(seen), seconds=seconds))


def _duplicate(proposal: Proposal, there: int, request: int, at: float) -> Refused:
    member, usd = _written(proposal)
    return Refused(
        at=at,
        request=request,
        name=_name(proposal),
        why=f"is the same program as candidate {there:04d}",
        duplicate_of=there,
        in_words=bool(proposal.answer),
        member=member,
        usd=usd,
    )


def refusal(request: int, error: KernelwrightError, at: float, seconds: float) -> tuple[Event, ...]:
    over = _line(error) if isinstance(error, Refusal) and error.final else ""
    return (
        Refused(at=at, request=request, name="", why=_line(error)),
        Answered(at=at, request=request, taken=0, seconds=seconds, over=over),
    )


def refused(request: int, name: str, why: str, member: str, usd: float, at: float) -> Refused:
    """An answer that its proposer did not make a proposal of."""
    return Refused(at=at, request=request, name=_printable(name), why=_line(why), member=member, usd=usd)


def as_event(state: State, proposal: Proposal, number: int, request: int | None, island: int, at: float) -> Proposed:
    candidate = proposal.candidate
    if candidate.contract != state.run.contract:
        raise KernelwrightError(f"a {candidate.contract} candidate was proposed; this run takes {state.run.contract}")
    if not candidate.source.strip():
        raise KernelwrightError("the source is empty")
    if "\0" in candidate.source or not _is_text(candidate.source):
        raise KernelwrightError("the source is not text")
    if len(candidate.source.encode()) > MAX_BYTES:
        raise KernelwrightError(f"the source has more than {MAX_BYTES:,} bytes")
    rendered = render(candidate)
    try:
        return Proposed(
            at=at,
            number=number,
            request=request,
            contract=rendered.contract,
            source=rendered.source,
            name=_name(proposal),
            origin=proposal.origin,
            genes=dict(proposal.genes),
            note=shortened(proposal.note, NOTE_LENGTH),
            parents=proposal.parents,
            prompt=proposal.prompt,
            answer=proposal.answer,
            generic=tuple(shortened(line, NOTE_LENGTH) for line in proposal.generic[:MOST_GENERIC]),
            island=island,
            fingerprint=fingerprint(rendered),
        )
    except ValidationError as error:
        raise KernelwrightError(f"the proposal cannot be kept: {error.errors()[0]['msg']}") from None


def sweep(entry: Entry, seed: int) -> tuple[Proposal, ...]:
    """The same candidate with other values of the tunables that it declares."""
    proposal = entry.proposal
    found = []
    for values in variants(proposal.candidate, MOST_VARIANTS, seed):
        try:
            candidate = render(proposal.candidate, values)
        except TunableError:
            continue
        chosen = ", ".join(f"{name}={value}" for name, value in values.items())
        found.append(
            replace(
                proposal,
                candidate=candidate,
                origin=f"{SWEPT} of {entry.number}",
                genes={**proposal.genes, **values},
                note=f"{proposal.note} with {chosen}".strip(),
                parents=(proposal.candidate.id,),
                prompt="",
                answer="",
            )
        )
    return tuple(found)


def paid(proposal: Proposal) -> tuple[str, float]:
    """Which model wrote it, and what that cost; an empty name and 0 where no model did.

    A variant of a sweep has its model from what it varies, which was paid for once.
    """
    member, usd = proposal.genes.get(MEMBER), 0 if is_swept(proposal) else proposal.genes.get(USD)
    return (member if isinstance(member, str) else "", float(usd) if isinstance(usd, int | float) else 0.0)


def _written(proposal: Proposal) -> tuple[str, float]:
    """Whose answer is refused with it. A variant that is refused was not an answer, and took no time to judge."""
    return ("", 0.0) if is_swept(proposal) else paid(proposal)


def _name(proposal: Proposal) -> str:
    return _printable(proposal.candidate.name)


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())[:NAME_LENGTH]


def _is_text(source: str) -> bool:
    try:
        source.encode()
    except UnicodeEncodeError:
        return False
    return True


def _line(error: KernelwrightError | str) -> str:
    return shortened(str(error), 300)
