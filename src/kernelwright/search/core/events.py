"""What a search decides and what happened in it, as its journal keeps them. All else about a run is folded from these.

A decision is an `Action`, and is journalled before it is done: what was planned and not done is done first when a run
is resumed. What came of it is an `Event`. A proposer may read the directory in which the journal lies, so that an event
holds only what an author may see. A score is one number over all workloads, hidden ones included; a certificate is
named and lies elsewhere. Names that journals of before have are read as well (`validation_alias`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, TypeAdapter

from kernelwright.contracts import Candidate
from kernelwright.judge.baseline_names import usual
from kernelwright.judge.verdict import AuthorVerdict, IntervalValue, Outcome, VerdictPart
from kernelwright.llm.config import EnsembleConfig
from kernelwright.llm.model import CallRecord
from kernelwright.proposers.model import Gene, Operator, Proposal

VERSION = 1
STARTED, ADOPTED = "started", "adopted"  # the kinds of events that say what a run is about
MOST_THREADS, MOST_AT_ONCE = 1024, 1024
ParameterValue = int | float


class StopReason(StrEnum):
    """Why a run ended. `exhausted`: its proposer had nothing left to try. `unanswered`: no answer came. `failed`: this
    machine could not go on, and the detail says why."""

    budget = "budget"
    at_the_bound = "at_the_bound"
    plateau = "plateau"
    exhausted = "exhausted"
    unanswered = "unanswered"
    interrupted = "interrupted"
    failed = "failed"


class Ask(VerdictPart):
    """Ask the proposer. Parents and inspirations are numbers of candidates of this run."""

    kind: Literal["ask"] = "ask"
    request: int
    operator: Operator
    count: int
    seed: int
    parents: tuple[int, ...] = ()
    inspirations: tuple[int, ...] = ()
    island: int = 0
    why: str = ""  # these parents were chosen; empty in old journals


class Sweep(VerdictPart):
    """Propose a candidate's own tunables with other values."""

    kind: Literal["sweep"] = "sweep"
    request: int
    number: int
    seed: int


class Evaluate(VerdictPart):
    """Judge on public workloads with little effort: enough to choose parents, never to claim anything."""

    kind: Literal["evaluate"] = "evaluate"
    number: int


class HoldFinal(VerdictPart):
    """Judge a challenger with all that a claim needs, and the best afresh beside it, on one device."""

    kind: Literal["contest"] = "contest"  # as journals have it
    challenger: int
    best: int | None = Field(validation_alias=AliasChoices("best", "incumbent"))


class Stop(VerdictPart):
    kind: Literal["stop"] = "stop"
    reason: StopReason
    detail: str = ""


Action = Annotated[Ask | Sweep | Evaluate | HoldFinal | Stop, Field(discriminator="kind")]


class Happened(VerdictPart):
    at: float  # seconds since 1970
    after: float | None = None  # seconds since the command began, by a clock that is never set; None in old ones


class Started(Happened):
    """The first event of every run: what it is about, and all that its policy depends on."""

    kind: Literal["started"] = "started"
    task: str  # as the judge finds it
    task_name: str
    task_digest: str = ""  # of the task's files; empty in journals of before it was kept
    contract: str
    device: str  # or several, with commas between them
    judges: int = Field(default=1, ge=1, le=MOST_AT_ONCE)  # judgings that are planned at a time
    proposer: str
    policy: str
    policy_parameters: dict[str, ParameterValue] = Field(default_factory=dict)  # empty in old journals: the defaults
    seed: int
    plateau: int = Field(ge=1)
    threads: int = Field(default=0, ge=0, le=MOST_THREADS)
    baselines: tuple[str, ...] = usual("cpu")
    answer_timeout: float = Field(3600.0, validation_alias=AliasChoices("answer_timeout", "wait"))
    lockstep: bool  # whether the scheduler waits for the proposer, which makes a run repeatable
    bounds: dict[str, float] = Field(default_factory=dict)  # seconds, by public workload
    open_requests: int = Field(
        default=1, ge=1, le=MOST_AT_ONCE, validation_alias=AliasChoices("open_requests", "ahead")
    )
    repairs: int = Field(
        default=0, ge=0, le=MOST_AT_ONCE
    )  # of a candidate in a row, by a proposer that can read why it was rejected
    ensemble: EnsembleConfig | None = None  # who is asked, by the proposer `llm`
    # Answers that are asked for at a time, and how many of them are judged at most; 0: no generations.
    proposals_per_generation: int = Field(
        default=0, ge=0, validation_alias=AliasChoices("proposals_per_generation", "generation")
    )
    judged_per_generation: int = Field(
        default=0, ge=0, validation_alias=AliasChoices("judged_per_generation", "measure")
    )
    budget: str = ""  # for the first driver; empty in journals of before it was kept

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(self.device.split(","))


class Adopted(Happened):
    """The run was begun elsewhere, and goes on here with a task that the user named. What its finals showed before is
    another installation's claim."""

    kind: Literal["adopted"] = "adopted"
    task: str  # as the judge finds it here


class Continued(Happened):
    """A driver begins to work on the run: once at its start, and again whenever it is resumed."""

    kind: Literal["continued"] = "continued"
    budget: str


class Prepared(Happened):
    """The task is open and its baselines are ready: `seconds` since the command began."""

    kind: Literal["prepared"] = "prepared"
    seconds: float


class Planned(Happened):
    kind: Literal["planned"] = "planned"
    actions: tuple[Action, ...]


class Proposed(Happened):
    """`request` is None for a candidate that the user began with."""

    kind: Literal["proposed"] = "proposed"
    number: int
    request: int | None
    contract: str
    source: str
    name: str
    origin: str
    genes: dict[str, Gene] = Field(default_factory=dict)
    note: str = ""
    parents: tuple[str, ...] = ()
    prompt: str = ""
    answer: str = ""
    generic: tuple[str, ...] = ()
    island: int = 0
    fingerprint: str  # of the source without comments and layout

    @property
    def proposal(self) -> Proposal:
        candidate = Candidate(self.contract, self.source, self.name)
        said = (self.note, self.parents, self.prompt, self.answer, self.generic)
        return Proposal(candidate, self.origin, self.genes, *said)


class Refused(Happened):
    """A proposal that cost no evaluation: a duplicate, or an answer that is not a source."""

    kind: Literal["refused"] = "refused"
    request: int
    name: str
    why: str
    duplicate_of: int | None = None
    in_words: bool = False  # whether a person or a model wrote it, and is told
    member: str = ""  # whose answer it was, where models are asked
    usd: float = 0.0

    @property
    def told(self) -> bool:
        """Whether people hear of it. What merely varies genes meets itself all the time."""
        return self.duplicate_of is None or self.in_words


class Answered(Happened):
    kind: Literal["answered"] = "answered"
    request: int
    taken: int
    seconds: float
    over: str = ""  # why it is no use to ask again


class Evaluated(Happened):
    kind: Literal["evaluated"] = "evaluated"
    number: int
    verdict: AuthorVerdict
    estimate: float | None = Field(validation_alias=AliasChoices("estimate", "provisional"))
    certificates: tuple[str, ...] = ()
    judgings: int = 1
    seconds: float


class Abandoned(Happened):
    """A judging that came to no verdict: it passed its deadline.

    `out_of_time`: the run's budget ended it, which says nothing of the candidate; a later run may judge it.
    """

    kind: Literal["abandoned"] = "abandoned"
    number: int
    why: str
    out_of_time: bool = False
    judgings: int = 1
    seconds: float


class FinalHeld(Happened):
    """A challenger, judged with all that a claim needs. `ratio` is how much faster than the best it is."""

    kind: Literal["contested"] = "contested"  # as journals have it
    challenger: int
    best: int | None = Field(validation_alias=AliasChoices("best", "incumbent"))
    verdict: AuthorVerdict
    estimate: float | None = Field(validation_alias=AliasChoices("estimate", "provisional"))
    score: float | None
    # On the challenger's hidden workloads, so that no certificate has it.
    best_score: float | None = Field(default=None, validation_alias=AliasChoices("best_score", "incumbent_score"))
    # Why the best was rejected when it was judged again.
    best_rejected: str = Field(default="", validation_alias=AliasChoices("best_rejected", "incumbent_lost"))
    ratio: IntervalValue | None = None
    # It is not faster on public workloads either, where its estimate had said so.
    estimate_refuted: bool = Field(default=False, validation_alias=AliasChoices("estimate_refuted", "lucky"))
    won: bool
    why: str
    certificates: tuple[str, ...] = ()
    judgings: int
    seconds: float

    @property
    def undecided(self) -> bool:
        """Whether it did not show which of the two is faster."""
        told = self.score is not None and (self.best is None or self.ratio is not None)
        refused = self.verdict.verdict is Outcome.rejected or self.verdict.partial_domain
        return not self.won and not told and not refused


class ModelCalled(Happened):
    """A call of a language model, a failed one too: what it took, and what it cost."""

    kind: Literal["called"] = "called"
    call: CallRecord


class Reviewed(Happened):
    """What models think of a finalist's honesty. It is an opinion: the judge's verdict does not depend on it."""

    kind: Literal["reviewed"] = "reviewed"
    number: int
    votes: int
    against: int
    reason: str = ""

    @property
    def suspected(self) -> bool:
        return self.against * 2 > self.votes


class Stopped(Happened):
    kind: Literal["stopped"] = "stopped"
    reason: StopReason
    detail: str = ""


Event = Annotated[
    Started
    | Adopted
    | Continued
    | Prepared
    | Planned
    | Proposed
    | Refused
    | Answered
    | Evaluated
    | Abandoned
    | FinalHeld
    | ModelCalled
    | Reviewed
    | Stopped,
    Field(discriminator="kind"),
]
event_of: TypeAdapter[Event] = TypeAdapter(Event)
