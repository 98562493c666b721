"""Runs that reports are made of in tests: toy searches with certificates, and a journal full of hostile text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts import Candidate
from kernelwright.contracts.registry import fingerprint
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.verdict import (
    BaselineTime,
    BoundValue,
    Conditions,
    ErrorReport,
    IntervalValue,
    LaunchProfile,
    Outcome,
    ProcessEvidence,
    Profile,
    Reason,
    Stage,
    Stall,
    Verdict,
    WorkloadResult,
)
from kernelwright.search.core.events import (
    Continued,
    Evaluated,
    Event,
    FinalHeld,
    Proposed,
    Refused,
    Reviewed,
    Stopped,
    StopReason,
)
from kernelwright.search.core.score import estimate, score
from kernelwright.search.driver import for_journal
from kernelwright.search.journal import Journal
from tests import forgery
from tests.search import toy

DIGEST = "d" * 64
HIDDEN_SIZE = 86_753_09


@dataclass
class Certifying(toy.ToyJudge):
    """A toy judge whose full judgings leave a certificate in this installation's state."""

    digest: str = DIGEST
    key: bytes | None = None

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        found = super().judge(task, candidate, settings, progress, deadline)
        if found.certificate:
            forgery.keep(found.certificate, forgery.of_final(found, candidate, "toy", self.digest), self.key)
        return found


def toy_run(root: Path, *, seed: int = 1, budget: str = "40evals", key: bytes | None = None) -> Path:
    """A whole toy search whose best is proved (or, with another key, signed by a stranger)."""
    toy.search(root, seed=seed, budget=budget, judge=Certifying(key=key), task_digest=DIGEST)
    return sorted(root.glob("toy-*"))[-1]


SCRIPT = "</script><script>alert(1)</script>"
ATTACKS = (
    SCRIPT,
    "<img src=x onerror=alert(2)>",
    '" onmouseover="alert(3)" \'',
    "<svg/onload=alert(4)>",
    "</title></style></pre></td><iframe src=http://127.0.0.1:9/x>",
    "{{ 7 * 7 }} {% raw %}",
    "\x1b[31mred\x1b]0;owned\x07",
    "\u202egnp.exe\u2066 \u200b",
    "![x](http://127.0.0.1:9/p.png) [y](javascript:alert(5)) @someone #1 | `` ``` ~~~",
    "--> <!-- ]]> &lt;b&gt; %3Cscript%3E",
)
HOSTILE = " ".join(ATTACKS)
SOURCE = "void kernel() { use(5, 5, 5, 5, 5, 5, 5, 5); }\n// " + "\n// ".join(ATTACKS) + "\n````\n</code></pre>\n"


def hostile_run(root: Path) -> Path:
    """Everything in the journal that a stranger, an author or a model may choose is an attack."""
    folder = root / "hostile"
    folder.mkdir(parents=True)
    journal = Journal(folder)
    try:
        journal.append(_events())
    finally:
        journal.close()
    return folder


def _events() -> list[Event]:
    best, wrong = Candidate("cpp", SOURCE, HOSTILE), Candidate("cpp", f"{SOURCE}// wrong", HOSTILE)
    accepted, rejected = _verdict(best, hidden=True), _rejected(wrong)
    began = toy.started(task_name=HOSTILE, task=HOSTILE, baselines=(HOSTILE, "eager"), budget="9evals")
    return [
        began,
        Continued(at=1000.0, budget="9evals"),
        _proposed(1, best, ()),
        _proposed(2, wrong, (best.id,)),
        Refused(at=1001.0, request=1, name=HOSTILE, why=HOSTILE),
        Evaluated(at=1002.0, number=1, verdict=for_journal(_verdict(best)), estimate=2.0, seconds=1.0),
        Evaluated(at=1003.0, number=2, verdict=for_journal(rejected), estimate=None, seconds=1.0),
        Reviewed(at=1003.5, number=1, votes=3, against=1, reason=HOSTILE),
        FinalHeld(
            at=1004.0, challenger=1, best=None, verdict=for_journal(accepted), estimate=estimate(accepted),
            score=score(accepted), won=True, why=HOSTILE, certificates=(HOSTILE[:60],), judgings=1, seconds=2.0,
        ),
        Stopped(at=1005.0, reason=StopReason.interrupted, detail=HOSTILE),
    ]  # fmt: skip


def _proposed(number: int, candidate: Candidate, parents: tuple[str, ...]) -> Proposed:
    return Proposed(
        at=1000.5, number=number, request=None, contract="cpp", source=candidate.source, name=candidate.name,
        origin=HOSTILE, genes={HOSTILE: HOSTILE}, note=HOSTILE, parents=parents, prompt=HOSTILE, answer=HOSTILE,
        fingerprint=fingerprint(candidate),
    )  # fmt: skip


def _verdict(candidate: Candidate, *, hidden: bool = False) -> Verdict:
    plain = toy.verdict_of(candidate, [])
    results = [workload(HOSTILE, 2.0)]
    if hidden:
        results.append(workload("secret", 3.0, hidden=True))
    conditions = Conditions(
        sandbox=HOSTILE, arena=HOSTILE, safety=HOSTILE, device=HOSTILE, threads=1, judge_version=HOSTILE,
        compiler=HOSTILE, driver=HOSTILE, runner=HOSTILE,
    )  # fmt: skip
    errors = ErrorReport(
        result=HOSTILE, elements=9, share=0.1, rms=0.5, eager_rms=0.6, mean=0.0, eager_mean=0.0, ulp=3, eager_ulp=4,
        finding="float32",
    )  # fmt: skip
    changes = {"workloads": tuple(results), "conditions": conditions, "errors": (errors,), "public_errors": (errors,)}
    changes |= {"library": (HOSTILE,), "public_library": (HOSTILE,)}
    return plain.model_copy(update=changes)


def workload(label: str, factor: float, *, hidden: bool = False) -> WorkloadResult:
    """As a GPU has it: with a bound, and a profile of a public one."""
    launch = LaunchProfile(
        kernel=HOSTILE, seconds=1e-6, of_dram=0.7, occupancy=0.5, stalls=(Stall(reason=HOSTILE, share=0.4),)
    )
    return WorkloadResult(
        label=label,
        sizes={"n": HIDDEN_SIZE} if hidden else {HOSTILE[:200]: 1},
        dtype="float32",
        hidden=hidden,
        trials=12,
        speed=toy.SpeedStatus.measured,
        seconds=1e-3 / factor,
        baselines=(
            BaselineTime(
                baseline=HOSTILE,
                seconds=1e-3,
                speedup=IntervalValue(low=factor * 0.98, mid=factor, high=factor * 1.02),
            ),
        ),
        bound=BoundValue(
            seconds=2e-4, impossible_below=1e-5, read_bytes=1_000_000, moved_bytes=2_000_000, operations=9_000_000
        ),
        profile=None if hidden else Profile(launches=(launch,)),
        deterministic=True,
    )


def _rejected(candidate: Candidate) -> Verdict:
    evidence = ProcessEvidence(workload=HOSTILE, trial=1, ending=HOSTILE, output=(HOSTILE,))
    changes = {"evidence": evidence, "stage": Stage.run, "reason": Reason.ended_itself}
    return toy.verdict_of(candidate, [], outcome=Outcome.rejected).model_copy(update=changes)
