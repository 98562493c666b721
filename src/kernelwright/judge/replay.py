"""Replaying a certificate, and what "the same" means.

The same: the same outcome for the same reason, and, where both times were measured on the same class of device with
the same number of threads, speedups whose intervals overlap. A rejected candidate is first given the very values on
which it failed. All other values are drawn afresh, from a key that the signer of the certificate does not know. Beside
the hidden workloads of a certificate that was not signed here there are as many that this judge draws from its own key.

A replay counts as proof where nothing that it was judged on is below today's standard (`judge.strangers.standard`).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from types import TracebackType

from kernelwright.contracts.artefact import MARK
from kernelwright.devices.cpu import probe
from kernelwright.devices.names import Device, device_named
from kernelwright.errors import KernelwrightError
from kernelwright.isolation.levels import Level, accepted
from kernelwright.judge.baseline_names import known
from kernelwright.judge.certificate import Certificate, CertificateError
from kernelwright.judge.controller import Judge
from kernelwright.judge.keys import KEY_BYTES, code_hash
from kernelwright.judge.oracle_client import FailingDraw
from kernelwright.judge.settings import (
    HIDDEN_PER_EVALUATION,
    ProgressCallback,
    ReplaySettings,
    Settings,
    ignore_progress,
)
from kernelwright.judge.strangers.certified_task import (
    reference_for,
    require_affordable,
    require_same_file,
    require_same_name,
)
from kernelwright.judge.strangers.standard import below_standard
from kernelwright.judge.strangers.trusted import Signer, signature_of
from kernelwright.judge.timing import statistics
from kernelwright.judge.verdict import Outcome, SpeedStatus, Verdict, VerdictPart, WorkloadResult
from kernelwright.judge.wording import shortened
from kernelwright.tasks.loading import digest

MOST_THREADS, THREADS_ANYWHERE, THREADS_PER_CORE = 1024, 64, 4
MOST_BLOCKS = 100_000
MOST_SECONDS = 3600.0
MOST_WORKLOADS = 16
MOST_SEED = (1 << 63) - 1
SAME_BYTES = "the same bytes"
NAME = 60  # letters of a device or compiler that a certificate names


class SpeedComparison(VerdictPart):
    """One workload against one baseline, then and now."""

    workload: str
    baseline: str
    then: tuple[float, float]
    now: tuple[float, float]
    overlap: bool


class Replay(VerdictPart):
    """What became of a replay. `same` is None where the machine could not decide.

    `counts`: it is the same, and was judged on no less than today's standard; `below` says what is less. `own_hidden`
    are the workloads that this judge drew beside the certificate's. `judge_code`: whether this judge's code is that of
    the judge that issued it; checks may have been added since.
    """

    same: bool | None
    counts: bool
    below: tuple[str, ...]
    outcome: str
    artefact: str
    device: str
    sandbox: str
    judge_code: str
    speeds: tuple[SpeedComparison, ...]
    not_compared: tuple[str, ...]
    own_hidden: tuple[str, ...]
    verdict: Verdict


@dataclass(frozen=True)
class _Speeds:
    compared: tuple[SpeedComparison, ...]
    left_out: tuple[str, ...]


def settings_of(
    issued: Certificate, device: Device | None = None, isolation: Level | None = None, *, own_hidden: int = 0
) -> Settings:
    """How to judge the certificate's candidate once more; `device` is another one of the same kind."""
    rejected = issued.verdict.verdict is Outcome.rejected
    failure = issued.failure if rejected else None
    return Settings(
        baselines=issued.settings.baselines,
        threads=issued.settings.threads,
        effort=issued.settings.effort,
        public_only=issued.settings.public_only,
        safety=issued.settings.safety,
        domain=issued.settings.domain or bool(own_hidden),
        device=device or device_named(issued.settings.device),
        isolation=isolation or accepted(),
        replaying=ReplaySettings(
            secrets.token_bytes(KEY_BYTES),
            issued.hidden_workloads,
            issued.lighter_workloads,
            failure.run if failure else None,
            FailingDraw(failure.family, failure.seed, failure.special) if failure else None,
            bytes.fromhex(issued.checks) if issued.checks and (rejected or not own_hidden) else None,
            own_hidden=own_hidden,
        ),
    )


class ReplaySession:
    """Replays certificates one after another. Oracle and baselines stay up for those that share device and threads:
    they take seconds to start."""

    def __init__(self) -> None:
        self._judge: Judge | None = None
        self._place: tuple[Device, int, Level] | None = None

    def __enter__(self) -> ReplaySession:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        judge, self._judge, self._place = self._judge, None, None
        if judge is not None:
            judge.close()

    def replay(
        self,
        issued: Certificate,
        task: str | None = None,
        progress: ProgressCallback = ignore_progress,
        device: Device | None = None,
        isolation: Level | None = None,
    ) -> Replay:
        """Judges the certificate's candidate once more, with its own settings.

        The signer of a certificate chose its settings and what it names, so everything is looked at before anything is
        imported or started.
        """
        signed = signature_of(issued)
        refuse_excess(issued)
        reference = reference_for(issued, task, signed)
        require_same_file(reference, issued, signed)
        foreign = signed.signer is not Signer.here
        if foreign:
            require_affordable(reference, issued)
        settings = settings_of(issued, device, isolation, own_hidden=HIDDEN_PER_EVALUATION if foreign else 0)
        judge = self._judge_for(settings)
        try:
            opened = judge.open(reference)
        except KernelwrightError as error:
            raise CertificateError(f"{error} (its task is {reference}; --task FILE says where it is now)") from None
        if digest(opened.sources) != issued.task.digest:
            raise CertificateError(
                f"{reference}: is not the task of the certificate any more; give the file as it was with --task FILE"
            )
        require_same_name(opened.name, reference, issued, task)
        return compare(issued, judge.judge(reference, issued.source, progress, settings))

    def _judge_for(self, settings: Settings) -> Judge:
        place = (settings.device, settings.threads, settings.isolation)
        if self._judge is None or place != self._place:
            self.close()
            self._judge = Judge(
                Settings(
                    baselines=settings.baselines,
                    threads=settings.threads,
                    device=settings.device,
                    isolation=settings.isolation,
                )
            )
            self._place = place
        return self._judge


def replay(
    issued: Certificate,
    task: str | None = None,
    progress: ProgressCallback = ignore_progress,
    device: Device | None = None,
    isolation: Level | None = None,
) -> Replay:
    """Replays one certificate; `device` is another one of the same kind."""
    with ReplaySession() as session:
        return session.replay(issued, task, progress, device, isolation)


def refuse_excess(issued: Certificate) -> None:
    """Terms that no judge here would have judged on; they would cost a machine its memory, its threads or a day."""
    terms, effort, failure = issued.settings, issued.settings.effort, issued.failure
    threads = min(MOST_THREADS, max(THREADS_ANYWHERE, THREADS_PER_CORE * len(probe().cores)))
    within = {
        f"threads: at most {threads} are started here": 1 <= terms.threads <= threads,
        f"blocks: at most {MOST_BLOCKS:,} are run": (
            1 <= effort.least <= MOST_BLOCKS and 1 <= effort.most <= MOST_BLOCKS
        ),
        f"blocks between two looks: from 1 to {MOST_BLOCKS:,}": 1 <= effort.step <= MOST_BLOCKS,
        f"seconds: at most {MOST_SECONDS:g} are spent on a workload": 0 <= effort.seconds <= MOST_SECONDS,
        f"workloads: at most {MOST_WORKLOADS} are hidden": (
            max(len(issued.hidden), len(issued.lighter)) <= MOST_WORKLOADS
        ),
        "baselines: a name that is not known, or one that is there twice": (
            len(set(terms.baselines)) == len(terms.baselines)
            and set(terms.baselines) <= set(known(device_named(terms.device).kind))
        ),
        "seed: it has 63 bits": failure is None or 0 <= failure.seed <= MOST_SEED,
    }
    for what, fine in within.items():
        if not fine:
            raise CertificateError(f"the certificate's terms are not those of a judge ({what}); it is not replayed")


def compare(issued: Certificate, now: Verdict) -> Replay:
    then = issued.verdict
    same_device = (then.conditions.device, then.conditions.threads) == (now.conditions.device, now.conditions.threads)
    speeds = _speeds(issued, now) if same_device else _Speeds((), tuple(result.label for result in then.workloads))
    same_outcome = (then.verdict, then.reason) == (now.verdict, now.reason)
    comparable = (then.verdict is Outcome.undecided) == (now.verdict is Outcome.undecided)
    same = same_outcome and all(speed.overlap for speed in speeds.compared) if comparable else None
    below = below_standard(issued, now)
    was = shortened(then.conditions.device, NAME)
    theirs = {(one.label, one.dtype) for one in issued.hidden_workloads}
    return Replay(
        same=same,
        counts=same is True and not below,
        below=below,
        outcome=f"{now.verdict} ({now.reason}), was {then.verdict} ({then.reason})",
        artefact=compared_artefact(then, now),
        device="the same class" if same_device else f"{now.conditions.device}, was {was}",
        sandbox=now.conditions.sandbox,
        judge_code="the same" if issued.environment.judge_code == code_hash() else "another version",
        speeds=speeds.compared,
        not_compared=speeds.left_out,
        own_hidden=tuple(one.label for one in now.workloads if one.hidden and (one.label, one.dtype) not in theirs),
        verdict=now,
    )


def compared_artefact(then: Verdict, now: Verdict) -> str:
    """What was built, then and now, told from its content, and only then from what the compilers are called."""
    if now.artefact is None or then.artefact is None:
        return "nothing was built" if now.artefact is None else "nothing was built then"
    if then.artefact == now.artefact:
        return SAME_BYTES
    if then.conditions.compiler != now.conditions.compiler:
        return f"another toolchain ({shortened(then.conditions.compiler, NAME)} → {now.conditions.compiler})"
    if not then.artefact.startswith(MARK):
        return "the same toolchain; the certificate has no hash of the bytes"
    if then.conditions.device != now.conditions.device:
        return "the same toolchain, other bytes, for another processor"
    return "the same toolchain, other bytes"


def _speeds(issued: Certificate, now: Verdict) -> _Speeds:
    kind, then = device_named(issued.settings.device).kind, issued.verdict
    compared: list[SpeedComparison] = []
    left_out: list[str] = []
    later = {(result.label, result.hidden): result for result in now.workloads}
    for before in then.workloads:
        after = later.get((before.label, before.hidden))
        if after is None or not (_measured(before) and _measured(after)):
            left_out.append(before.label)
            continue
        known = {time.baseline: time.speedup for time in after.baselines}
        for time in before.baselines:
            if time.baseline in known:
                first, second = time.speedup, known[time.baseline]
                slack = statistics.band(kind, time.seconds).high  # a baseline may differ from itself by as much
                overlap = first.low <= second.high * slack and second.low <= first.high * slack
                compared.append(
                    SpeedComparison(
                        workload=before.label,
                        baseline=time.baseline,
                        then=(first.low, first.high),
                        now=(second.low, second.high),
                        overlap=overlap,
                    )
                )
    return _Speeds(tuple(compared), tuple(left_out))


def _measured(result: WorkloadResult) -> bool:
    return result.speed is SpeedStatus.measured
