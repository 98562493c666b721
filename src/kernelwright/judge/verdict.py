"""What the judge says. A closed set of typed outcomes; two views of it, as two types.

`Verdict` is the auditor's view and holds everything. `AuthorVerdict` is what a proposer, a prompt or an agent's tool
may see: everything about public workloads, and of hidden ones only whether one failed and in what general way.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field, model_validator

from kernelwright.judge.baseline_names import claimable

SCHEMA_VERSION = 1
NO_SAFETY = "none"  # what conditions say where no sanitizer looked


class VerdictPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Outcome(StrEnum):
    """`accepted`: right and safe on every trial of every workload. Speed is reported apart and may be undecided."""

    accepted = "accepted"
    rejected = "rejected"
    undecided = "undecided"


class Stage(StrEnum):
    """Where an evaluation ended. `complete` is the end of one that found nothing wrong; `domain` is the untimed check
    of the whole declared domain, whatever failed in it."""

    build = "build"
    load = "load"
    run = "run"
    compare = "compare"
    safety = "safety"
    domain = "domain"
    complete = "complete"


class Reason(StrEnum):
    right = "right"
    does_not_build = "does_not_build"
    build_took_too_long = "build_took_too_long"
    does_not_load = "does_not_load"
    crashed = "crashed"
    ended_itself = "ended_itself"
    timed_out = "timed_out"
    launch_failed = "launch_failed"
    illegal_access = "illegal_access"
    out_of_memory = "out_of_memory"
    dirty_workspace = "dirty_workspace"
    ran_while_stopped = "ran_while_stopped"
    wrote_outside = "wrote_outside"
    unwritten = "unwritten"
    nan_or_inf = "nan_or_inf"
    imprecise = "imprecise"
    wrong = "wrong"
    unsafe = "unsafe"
    library_alone = "library_alone"
    judge_failed = "judge_failed"


class SpeedStatus(StrEnum):
    """Whether a speed could be measured; anything but `measured` leaves it undecided.

    `noisy`: the A/A interval left its band. `wide`: the baseline was quiet, but the interval of the speedup is too wide
    to mean anything. `short`: too short to rank. `near_overhead`: the speedup changes by more than the band with what
    an empty trial costs, which differs between processes. `clocks_disagree`: the device's clock and the one outside
    read different times. `investigate`: faster than the device can be, by what must be read or multiplied.
    """

    measured = "measured"
    noisy = "noisy"
    wide = "wide"
    short = "short"
    near_overhead = "near_overhead"
    clocks_disagree = "clocks_disagree"
    investigate = "investigate"
    not_measured = "not_measured"


class SpeedStanding(StrEnum):
    """A measured speed beside the baseline over which least may be claimed: the whole interval lies above 1, or below
    1, or holds 1."""

    faster = "faster"
    slower = "slower"
    no_difference = "no_difference"


class BuildEvidence(VerdictPart):
    kind: Literal["build"] = "build"
    lines: tuple[str, ...]


class MismatchEvidence(VerdictPart):
    """The first element that is wrong, and how many are. `special` names the special values among the inputs."""

    kind: Literal["mismatch"] = "mismatch"
    workload: str
    family: str
    special: str = ""
    trial: int
    result: str
    index: tuple[int, ...]
    expected: str
    got: str
    error: float | None
    tolerance: float | None
    wrong: int
    unwritten: int
    total: int
    precision: str | None = None  # what earlier judges named; now Verdict.errors


class OutsideWriteEvidence(VerdictPart):
    kind: Literal["trespass"] = "trespass"
    workload: str
    trial: int
    tensor: str
    side: str


class ProcessEvidence(VerdictPart):
    """How the runner ended, and the end of what it wrote. Its words are the candidate's, not the judge's."""

    kind: Literal["process"] = "process"
    workload: str
    trial: int
    ending: str
    output: tuple[str, ...] = ()


class SanitizerEvidence(VerdictPart):
    kind: Literal["sanitizer"] = "sanitizer"
    workload: str
    lines: tuple[str, ...]


class ErrorReport(VerdictPart):
    """The errors of one result over a judging, beside those of eager PyTorch, on a random sample of its rows.

    `share` is the largest as a part of the tolerance, `ulp` in units in the last place. `rms` and `mean` are in units
    of what one rounding of every step moves an element by, and a positive mean is an error away from zero.
    `finding`: `float32` (nothing wrong), `biased`, `coarse`, the name of a shorter format of factors (`tf32`, `2xtf32`,
    `bf16x3`), or `indistinguishable` where nothing could be seen. `smallest_bias` is the smallest relative bias that
    would have been found. `found_in` says which trials show what was found: all of the `judging`, those of one
    `workload`, of all check `points`, or of one check `point`. `scalar`: the result is one number.
    """

    result: str
    elements: int
    share: float
    rms: float
    eager_rms: float
    mean: float
    eager_mean: float
    ulp: float
    eager_ulp: float
    finding: Literal["float32", "biased", "coarse", "tf32", "2xtf32", "bf16x3", "indistinguishable"]
    found_in: Literal["judging", "workload", "points", "point"] = "judging"
    smallest_bias: float | None = None
    scalar: bool = False

    @property
    def imprecise(self) -> bool:
        return self.finding not in ("float32", "indistinguishable")


class PrecisionEvidence(VerdictPart):
    """A result whose errors, over all trials, are not those of an honest kernel."""

    kind: Literal["precision"] = "precision"
    report: ErrorReport


class JudgeEvidence(VerdictPart):
    kind: Literal["judge"] = "judge"
    message: str


Evidence = Annotated[
    BuildEvidence
    | MismatchEvidence
    | OutsideWriteEvidence
    | ProcessEvidence
    | SanitizerEvidence
    | PrecisionEvidence
    | JudgeEvidence,
    Field(discriminator="kind"),
]


class IntervalValue(VerdictPart):
    low: float
    mid: float
    high: float


class BaselineTime(VerdictPart):
    """A baseline on the same trials. `speedup` is baseline over candidate; its `low` is what may be claimed."""

    baseline: str
    seconds: float
    speedup: IntervalValue


class BoundValue(VerdictPart):
    """What a workload takes at least. `seconds`: at measured peaks. `impossible_below`: at what no device of this
    kind exceeds. `sol` is 0.5 at the fastest baseline and 1 at the bound."""

    seconds: float
    impossible_below: float
    read_bytes: int
    moved_bytes: int
    operations: int
    sol: float | None = None


class KernelUse(VerdictPart):
    """What one launched kernel takes of a multiprocessor, as assembler and driver say. Bytes, but for registers."""

    kernel: str
    registers: int
    spill_stores: int
    spill_loads: int
    static_shared: int
    dynamic_shared: int
    threads: int
    blocks_per_sm: int
    occupancy: float


class Stall(VerdictPart):
    """Why warps could not go on, and its share of all their waiting."""

    reason: str
    share: float


class LaunchProfile(VerdictPart):
    """One launch by the GPU's counters: alone, with cold caches. None: this GPU or profiler does not count it.

    Shares are from 0 to 1: `of_…` of a unit's peak, `issuing` of the cycles, `bank_conflicts` of what shared memory
    did. `waves` is how often the grid fills the GPU; `local_bytes` is what spilled registers and local arrays moved.
    """

    kernel: str
    seconds: float | None = None
    dram_read_bytes: float | None = None
    dram_written_bytes: float | None = None
    of_dram: float | None = None
    l2_hits: float | None = None
    of_l2: float | None = None
    of_sm: float | None = None
    of_float32: float | None = None
    of_tensor: float | None = None
    occupancy: float | None = None
    eligible_warps: float | None = None
    issuing: float | None = None
    registers: float | None = None
    waves: float | None = None
    bank_conflicts: float | None = None
    local_bytes: float | None = None
    stalls: tuple[Stall, ...] = ()


class Profile(VerdictPart):
    """What a profiler saw of one call of an accepted candidate. Advice: no verdict depends on it.

    `missing` says why there is nothing to see.
    """

    launches: tuple[LaunchProfile, ...] = ()
    missing: str = ""


class Interference(VerdictPart):
    """What others used of the machine during the trials: cores kept busy, and the share of time that a hypervisor
    took. Only numbers, since certificates are passed on."""

    other_cores: float
    stolen: float
    cores: int


class WorkloadResult(VerdictPart):
    """`outside_seconds` is the median by the clock outside of the device, less what an empty call takes on it.
    `aa` is the fastest baseline, which `aa_baseline` names, against itself.

    `profile` is taken if asked for, of one public workload. `clock_disagreement` says what the clocks read where they
    disagree.
    """

    label: str
    sizes: dict[str, int]
    dtype: str
    hidden: bool
    trials: int = 0
    speed: SpeedStatus = SpeedStatus.not_measured
    seconds: float | None = None
    outside_seconds: float | None = None
    baselines: tuple[BaselineTime, ...] = ()
    bound: BoundValue | None = None
    kernels: tuple[KernelUse, ...] = ()
    profile: Profile | None = None
    aa: IntervalValue | None = None
    aa_baseline: str | None = None
    prepare_seconds: float | None = None
    deterministic: bool | None = None
    precision: str | None = None  # what earlier judges named; now Verdict.errors
    interference: Interference | None = None
    clock_disagreement: str | None = None
    raw_seconds: dict[str, tuple[float, ...]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _without_standing(cls, given: Any) -> Any:
        """It is written, but never read: what it follows from is here."""
        if isinstance(given, dict) and "standing" in given:
            return {key: value for key, value in given.items() if key != "standing"}
        return given

    @computed_field  # type: ignore[prop-decorator]
    @property
    def standing(self) -> SpeedStanding | None:
        """None where the speed is undecided."""
        best = self.best_baseline
        if self.speed is not SpeedStatus.measured or best is None:
            return None
        if best.speedup.low > 1:
            return SpeedStanding.faster
        return SpeedStanding.slower if best.speedup.high < 1 else SpeedStanding.no_difference

    @property
    def settled(self) -> bool:
        """Whether the baseline was quiet, so that another judging would only be a second chance."""
        return self.speed in (SpeedStatus.measured, SpeedStatus.wide, SpeedStatus.near_overhead)

    @property
    def claimed_over(self) -> tuple[BaselineTime, ...]:
        """Without those that are only shown, such as eager with TF32."""
        return tuple(one for one in self.baselines if claimable(one.baseline))

    @property
    def fastest_baseline(self) -> BaselineTime | None:
        return min(self.claimed_over, key=lambda b: b.seconds, default=None)

    @property
    def best_baseline(self) -> BaselineTime | None:
        """The one over which least may be claimed: nearly always the fastest, else one as fast and noisier."""
        return min(self.claimed_over, key=lambda b: b.speedup.low, default=None)


class Conditions(VerdictPart):
    """Under what the evaluation was done. `runner` is how far the process that ran the candidate was confined, where
    that is not what `sandbox` says; `driver` is the GPU's."""

    sandbox: str
    arena: str
    safety: str
    device: str
    threads: int
    judge_version: str
    compiler: str
    driver: str | None = None
    runner: str | None = None


class DomainCheck(VerdictPart):
    """What the untimed check of the declared domain covered, of what can be covered within its limits.

    `missing` are classes of the declared sizes at which no call was checked; `values` are the kinds of special values
    that were planted, and `opted_out` those that the task leaves out.
    """

    points: int
    calls: int
    classes: int
    classes_possible: int
    coarse_pairs: int
    coarse_pairs_possible: int
    fine_pairs: int
    fine_pairs_possible: int
    missing: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    opted_out: tuple[str, ...] = ()
    seconds: float = 0.0


class DomainFailure(VerdictPart):
    """On what kind of values a candidate failed in the domain check, without the sizes.

    `special` is the kind of the special values among the inputs; empty: values of an input family. `ordinary_right`:
    values of a family were tried at the same sizes before, and the result was right.
    """

    special: str = Field(default="", pattern="^[a-z_]{0,32}$")
    ordinary_right: bool = False


class DomainView(VerdictPart):
    """What both views say of the domain: nothing in it is hidden. `domain` is None where it was not checked, or where
    the candidate failed before or while it was; `domain_failure` says on what, if it failed there.
    `baselines_left_out`: those that were asked for and cannot do the task, each with why."""

    verdict: Outcome
    domain: DomainCheck | None = None
    domain_failure: DomainFailure | None = None
    baselines_left_out: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _without_partial_domain(cls, given: Any) -> Any:
        """It is written, but never read: what it follows from is here."""
        if isinstance(given, dict) and "partial_domain" in given:
            return {key: value for key, value in given.items() if key != "partial_domain"}
        return given

    @computed_field  # type: ignore[prop-decorator]
    @property
    def partial_domain(self) -> bool:
        """Accepted, and some of the declared domain was not checked. Such a candidate is never best."""
        return self.verdict is Outcome.accepted and self.domain is not None and bool(self.domain.missing)


class Verdict(DomainView):
    """The auditor's view."""

    view: Literal["auditor"] = "auditor"
    candidate: str
    name: str
    task: str
    contract: str
    stage: Stage
    reason: Reason
    evidence: Evidence | None = None
    failed_on_hidden: bool = False
    workloads: tuple[WorkloadResult, ...] = ()
    errors: tuple[ErrorReport, ...] = ()
    public_errors: tuple[ErrorReport, ...] = ()
    library: tuple[str, ...] = ()  # operators that torch carries out for the candidate, on any workload
    public_library: tuple[str, ...] = ()  # and those on public ones: which are asked for where may tell hidden sizes
    conditions: Conditions
    build_seconds: float | None = None
    artefact: str | None = None
    seconds: float = 0.0
    stage_seconds: dict[str, float] = Field(default_factory=dict)
    certificate: str | None = None


class HiddenSummary(VerdictPart):
    """All that an author learns of hidden workloads: how many there were, and in what general way one failed."""

    judged: int
    failed: bool
    reason: Reason | None = None


class AuthorVerdict(DomainView):
    """The author's view. It has no field that could carry a hidden workload."""

    view: Literal["author"] = "author"
    candidate: str
    name: str
    task: str
    contract: str
    stage: Stage
    reason: Reason
    evidence: Evidence | None = None
    workloads: tuple[WorkloadResult, ...] = ()
    errors: tuple[ErrorReport, ...] = ()
    library: tuple[str, ...] = ()
    hidden: HiddenSummary
    conditions: Conditions
    build_seconds: float | None = None
    certificate: str | None = None


# In what general way a hidden workload failed. The exact reason would tell an author a little more each time.
GENERAL = {
    Reason.unwritten: (Stage.compare, Reason.wrong),
    Reason.nan_or_inf: (Stage.compare, Reason.wrong),
    Reason.imprecise: (Stage.compare, Reason.wrong),
    Reason.wrong: (Stage.compare, Reason.wrong),
    Reason.wrote_outside: (Stage.compare, Reason.wrong),
    Reason.does_not_load: (Stage.run, Reason.crashed),
    Reason.ended_itself: (Stage.run, Reason.crashed),
    Reason.crashed: (Stage.run, Reason.crashed),
    Reason.ran_while_stopped: (Stage.run, Reason.crashed),
    Reason.launch_failed: (Stage.run, Reason.crashed),
    Reason.illegal_access: (Stage.run, Reason.crashed),
    Reason.out_of_memory: (Stage.run, Reason.crashed),
    Reason.dirty_workspace: (Stage.run, Reason.crashed),
    Reason.unsafe: (Stage.run, Reason.crashed),
    Reason.library_alone: (Stage.compare, Reason.wrong),
}


def author_view(verdict: Verdict) -> AuthorVerdict:
    """Drops everything that was learned on hidden workloads."""
    stage, reason = verdict.stage, verdict.reason
    if verdict.failed_on_hidden:
        general, reason = GENERAL.get(reason, (stage, reason))
        stage = Stage.domain if stage is Stage.domain else general
    public = tuple(result for result in verdict.workloads if not result.hidden)
    hidden = len(verdict.workloads) - len(public)
    return AuthorVerdict(
        candidate=verdict.candidate,
        name=verdict.name,
        task=verdict.task,
        contract=verdict.contract,
        verdict=verdict.verdict,
        domain=verdict.domain,
        domain_failure=verdict.domain_failure,
        baselines_left_out=verdict.baselines_left_out,
        stage=stage,
        reason=reason,
        evidence=None if verdict.failed_on_hidden else verdict.evidence,
        workloads=public,
        errors=verdict.public_errors,
        library=verdict.public_library,
        hidden=HiddenSummary(
            judged=hidden,
            failed=verdict.failed_on_hidden,
            reason=reason if verdict.failed_on_hidden else None,
        ),
        conditions=verdict.conditions,
        build_seconds=verdict.build_seconds,
        certificate=verdict.certificate,
    )


class Report(VerdictPart):
    """What `kernelwright judge --json` prints."""

    schema_version: int = SCHEMA_VERSION
    command: Literal["judge"] = "judge"
    task: str
    results: tuple[Verdict | AuthorVerdict, ...]
