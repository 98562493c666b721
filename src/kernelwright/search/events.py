"""What happened in a run, as its journal keeps it. Everything else about a run is folded from these.

A proposer may read the directory in which the journal lies, so that an event holds only what an author may see. A
score is one number over all workloads, hidden ones included; a certificate is named and lies elsewhere.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from kernelwright.contracts import Candidate
from kernelwright.judge.baseline_names import usual
from kernelwright.judge.verdict import AuthorVerdict, IntervalValue, Outcome, Value
from kernelwright.llm.config import EnsembleConfig
from kernelwright.llm.model import CallRecord
from kernelwright.proposers.model import Gene, Proposal
from kernelwright.search.actions import Action, StopReason

VERSION = 1


class Happened(Value):
    at: float  # seconds since 1970
    after: float | None = None  # seconds since a driver took up the run, by a clock that nobody sets; None in old ones


class Started(Happened):
    """The first event of every run: what it is about, and all that its policy depends on."""

    kind: Literal["started"] = "started"
    task: str  # as the judge finds it
    task_name: str
    task_digest: str = ""  # of the task's files; empty in journals of before it was kept
    contract: str
    device: str
    proposer: str
    policy: str
    seed: int
    plateau: int = Field(ge=1)
    threads: int = Field(default=0, ge=0)
    baselines: tuple[str, ...] = usual("cpu")
    wait: float = 3600.0  # for a proposer that is a person
    lockstep: bool  # whether the policy waits for the proposer, which makes a run repeatable
    bounds: dict[str, float] = Field(default_factory=dict)  # seconds, by public workload
    ahead: int = Field(default=1, ge=1)  # requests that may be open at once
    repairs: int = Field(default=0, ge=0)  # of a candidate in a row, by a proposer that can read why it was rejected
    ensemble: EnsembleConfig | None = None  # who is asked, by the proposer `llm`
    generation: int = Field(default=0, ge=0)  # answers that are asked for at a time; 0: no generations
    measure: int = Field(default=0, ge=0)  # and how many of them are measured at most
    budget: str = ""  # for the first driver; empty in journals of before it was kept


class Continued(Happened):
    """A driver took up the run: once at its start, and again after every stop or crash."""

    kind: Literal["continued"] = "continued"
    budget: str


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
    island: int = 0
    fingerprint: str  # of the source without comments and layout

    @property
    def proposal(self) -> Proposal:
        candidate = Candidate(self.contract, self.source, self.name)
        return Proposal(candidate, self.origin, self.genes, self.note, self.parents, self.prompt, self.answer)


class Refused(Happened):
    """A proposal that cost no evaluation: a duplicate, or an answer that is no source."""

    kind: Literal["refused"] = "refused"
    request: int
    name: str
    why: str
    duplicate_of: int | None = None
    in_words: bool = False  # whether somebody wrote it, who wants to know
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
    provisional: float | None
    certificates: tuple[str, ...] = ()
    judgings: int = 1
    seconds: float


class Abandoned(Happened):
    """An evaluation that came to no verdict: it passed its deadline."""

    kind: Literal["abandoned"] = "abandoned"
    number: int
    why: str
    judgings: int = 1
    seconds: float


class Contested(Happened):
    """A finalist, judged with all that a claim needs. `ratio` is how much faster than the reigning best it is."""

    kind: Literal["contested"] = "contested"
    challenger: int
    incumbent: int | None
    verdict: AuthorVerdict
    provisional: float | None
    score: float | None
    incumbent_score: float | None = None  # on the challenger's hidden workloads, so that no certificate has it
    incumbent_lost: str = ""  # why the reigning best was rejected when it was judged again
    ratio: IntervalValue | None = None
    lucky: bool = False
    won: bool
    why: str
    certificates: tuple[str, ...] = ()
    judgings: int
    seconds: float

    @property
    def undecided(self) -> bool:
        """Whether it told nothing of which of the two is faster."""
        told = self.score is not None and (self.incumbent is None or self.ratio is not None)
        return not self.won and not told and self.verdict.verdict is not Outcome.rejected


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
    | Continued
    | Planned
    | Proposed
    | Refused
    | Answered
    | Evaluated
    | Abandoned
    | Contested
    | ModelCalled
    | Reviewed
    | Stopped,
    Field(discriminator="kind"),
]
event_of: TypeAdapter[Event] = TypeAdapter(Event)
