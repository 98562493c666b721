"""What a report shows, as values: nothing here reads a file, a clock or a template.

Text in here may be a stranger's and is as it was written; who renders it makes it harmless.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from kernelwright.judge.certificate import CertifiedEnvironment
from kernelwright.judge.verdict import (
    BoundValue,
    Conditions,
    ErrorReport,
    LaunchProfile,
    WorkloadResult,
)


class Audience(StrEnum):
    """Whom a page is for. An `author` may read it and write the next candidate, so that it holds nothing hidden; an
    `auditor` sees hidden workloads, and must not pass them on."""

    author = "author"
    auditor = "auditor"


class ProofStanding(StrEnum):
    """`proved`: by certificates of a trusted key that say what is claimed. `signed`: so do certificates of a key that
    is not trusted here. `claimed`: a journal says so, and nothing else does."""

    proved = "proved"
    signed = "signed"
    claimed = "claimed"


STANDING_WORDS = {
    ProofStanding.proved: "proved",
    ProofStanding.signed: "signed by another judge, not proved here",
    ProofStanding.claimed: "claimed, not proved here",
}


@dataclass(frozen=True)
class CertificateView:
    """`below` is what it was judged on less than is usual today, in words; `replay` the command that repeats it."""

    name: str
    issued: str
    signed: str
    replay: str
    below: tuple[str, ...]
    same_judge: bool
    environment: CertifiedEnvironment


@dataclass(frozen=True)
class WorkloadView:
    """`name` is the label of a public workload; a hidden one is numbered unless an auditor looks."""

    name: str
    result: WorkloadResult
    bound_seconds: float | None

    @property
    def bound(self) -> BoundValue | None:
        return self.result.bound


@dataclass(frozen=True)
class HiddenView:
    """`claim` is the geometric mean of what may be claimed on hidden workloads. An author knows it anyway: it follows
    from the score and the public workloads. `workloads` is empty unless an auditor looks."""

    judged: int
    claim: float | None = None
    workloads: tuple[WorkloadView, ...] = ()


@dataclass(frozen=True)
class FurtherJudging:
    """Another judging of the same candidate, with other baselines or less effort: beside the proof, not part of it."""

    name: str
    how: str
    workloads: tuple[WorkloadView, ...]


@dataclass(frozen=True)
class ProfileView:
    workload: str
    launches: tuple[LaunchProfile, ...]
    sentence: str
    missing: str = ""


@dataclass(frozen=True)
class SourceFile:
    name: str
    text: str


@dataclass(frozen=True)
class KernelView:
    """The kernel that a report is about. `remark` says what to think of a best that is not shown to be faster."""

    number: int | None
    id: str
    contract: str
    origin: str
    note: str
    score: float | None
    standing: ProofStanding
    why: str  # it is not proved
    remark: str
    outcome: str
    holds: tuple[str, ...]
    limits: tuple[str, ...]  # where it does not hold, or was not checked
    public: tuple[WorkloadView, ...]
    hidden: HiddenView
    further: tuple[FurtherJudging, ...]
    errors: tuple[ErrorReport, ...]
    of_bound: str
    profile: ProfileView | None
    conditions: Conditions
    certificates: tuple[CertificateView, ...]
    files: tuple[SourceFile, ...]
    review: str = ""

    @property
    def workloads(self) -> tuple[WorkloadView, ...]:
        return self.public + self.hidden.workloads

    @property
    def standing_words(self) -> str:
        """What the proof is worth, in a few words."""
        if self.standing is ProofStanding.proved and any(one.below for one in self.certificates[:1]):
            return "proved, on less than today's standard"
        return STANDING_WORDS[self.standing]

    @property
    def fully_proved(self) -> bool:
        return self.standing_words == STANDING_WORDS[ProofStanding.proved]


@dataclass(frozen=True)
class CurvePoint:
    """One judging. `estimate` and `score` are its candidate's; `best_…` those of the run by then."""

    evaluations: int
    seconds: float
    number: int
    kind: Literal["evaluation", "final"]
    estimate: float | None
    score: float | None
    best_estimate: float | None
    best_score: float | None


@dataclass(frozen=True)
class CandidateRow:
    number: int
    origin: str
    note: str
    standing: str
    reason: str
    quick: float | None
    estimate: float | None
    score: float | None
    parents: tuple[int, ...]


@dataclass(frozen=True)
class RejectedRow:
    number: int
    stage: str
    reason: str  # one of the judge's closed set
    sentence: str
    evidence: str
    unseen: str  # on what it failed where its author cannot look, in general words
    origin: str
    note: str


@dataclass(frozen=True)
class Ancestor:
    """A candidate that the best was made from, or the best. `changes`: genes that differ from its first parent's."""

    number: int
    origin: str
    note: str
    estimate: float | None
    score: float | None
    parents: tuple[int, ...]
    changes: tuple[str, ...]


@dataclass(frozen=True)
class DiffLine:
    kind: Literal["same", "added", "removed", "place"]
    text: str


@dataclass(frozen=True)
class SourceDiff:
    before: str  # what it is that the best is compared with
    after: str
    lines: tuple[DiffLine, ...]
    left_out: int = 0  # lines beyond what is shown
    added: int = 0
    removed: int = 0


@dataclass(frozen=True)
class MemberCost:
    member: str
    model: str
    calls: int
    unanswered: int
    input_tokens: int
    output_tokens: int
    usd: float
    unpriced: int


@dataclass(frozen=True)
class CostView:
    evaluations: int
    wall_seconds: float
    device_seconds: float
    parts: tuple[tuple[str, float], ...]  # of the wall time
    calls: int
    tokens: int
    usd: float
    unpriced: int
    members: tuple[MemberCost, ...]


@dataclass(frozen=True)
class SearchHistory:
    """How a run came to its best."""

    stopped: str
    settings: tuple[tuple[str, str], ...]
    cost: CostView
    curve: tuple[CurvePoint, ...]
    candidates: tuple[CandidateRow, ...]
    refused: int
    duplicates: int  # of the refused
    rejected: tuple[RejectedRow, ...]
    suspects: tuple[str, ...]
    ancestors: tuple[Ancestor, ...]
    diff: SourceDiff | None
    gain_over_start: str


@dataclass(frozen=True)
class RunView:
    """A run, or a kernel with its certificates and without a run. `no_best` says why there is none."""

    name: str
    task: str
    task_digest: str
    device: str
    contract: str
    baselines: tuple[str, ...]
    threads: int
    begun_here: bool
    began: str  # date
    best: KernelView | None
    no_best: tuple[str, ...]
    search: SearchHistory | None


@dataclass(frozen=True)
class ReportView:
    audience: Audience
    runs: tuple[RunView, ...]
    version: str

    @property
    def title(self) -> str:
        return self.runs[0].task if len(self.runs) == 1 else f"{len(self.runs)} results"

    @property
    def shows_hidden(self) -> bool:
        return any(run.best is not None and run.best.hidden.workloads for run in self.runs)
