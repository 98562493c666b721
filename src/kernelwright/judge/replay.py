"""Replaying a certificate, and what "the same" means.

The same: the same outcome for the same reason, and, where both times were measured on the same class of device with
the same number of threads, speedups whose intervals overlap. A rejected candidate is first given the very values on
which it failed. Everything else is drawn from the certificate's subkey, so that each replay sees the same values;
they are not those of the first judging, which other candidates share.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.devices.cpu import probe
from kernelwright.devices.names import Device, device_named
from kernelwright.errors import KernelwrightError
from kernelwright.isolation.levels import Level, accepted
from kernelwright.judge.baseline_names import known
from kernelwright.judge.certificate import Certificate, CertificateError, public_key
from kernelwright.judge.controller import Judge
from kernelwright.judge.keys import derive, judge_key
from kernelwright.judge.oracle_client import FailingDraw
from kernelwright.judge.settings import ProgressCallback, ReplaySettings, Settings, ignore_progress
from kernelwright.judge.timing import statistics
from kernelwright.judge.verdict import Outcome, SpeedStatus, Verdict, VerdictPart, WorkloadResult
from kernelwright.tasks.loading import digest
from kernelwright.tasks.resolve import builtin_names, parse

MOST_THREADS, THREADS_ANYWHERE, THREADS_PER_CORE = 1024, 64, 4
MOST_BLOCKS = 100_000
MOST_SECONDS = 3600.0
MOST_WORKLOADS = 16
MOST_SEED = (1 << 63) - 1


class SpeedComparison(VerdictPart):
    """One workload against one baseline, then and now."""

    workload: str
    baseline: str
    then: tuple[float, float]
    now: tuple[float, float]
    overlap: bool


class Replay(VerdictPart):
    """What became of a replay. `same` is None where the machine could not decide."""

    same: bool | None
    outcome: str
    artefact: str
    device: str
    speeds: tuple[SpeedComparison, ...]
    not_compared: tuple[str, ...]
    verdict: Verdict


@dataclass(frozen=True)
class _Speeds:
    compared: tuple[SpeedComparison, ...]
    left_out: tuple[str, ...]


def settings_of(issued: Certificate, device: Device | None = None, isolation: Level | None = None) -> Settings:
    """How to judge the certificate's candidate once more; `device` is another one of the same kind."""
    subkey = bytes.fromhex(issued.subkey)
    failure = issued.failure
    return Settings(
        baselines=issued.settings.baselines,
        threads=issued.settings.threads,
        effort=issued.settings.effort,
        public_only=issued.settings.public_only,
        safety=issued.settings.safety,
        domain=issued.settings.domain,
        key=derive(subkey, "replay"),
        device=device or device_named(issued.settings.device),
        isolation=isolation or accepted(),
        replaying=ReplaySettings(
            subkey,
            issued.hidden_workloads,
            issued.lighter_workloads,
            failure.run if failure else None,
            FailingDraw(failure.family, failure.seed, failure.special) if failure else None,
            bytes.fromhex(issued.checks) if issued.checks else None,
        ),
    )


def replay(
    issued: Certificate,
    task: str | None = None,
    progress: ProgressCallback = ignore_progress,
    device: Device | None = None,
    isolation: Level | None = None,
) -> Replay:
    """Judges the certificate's candidate once more, with its own settings; `device` is another one of the same kind.

    The signer of a certificate chose its settings and the task that it names, so both are looked at before anything is
    started.
    """
    refuse_excess(issued)
    reference = task or trusted_reference(issued)
    with Judge(settings_of(issued, device, isolation)) as judge:
        try:
            opened = judge.open(reference)
        except KernelwrightError as error:
            raise CertificateError(f"{error} (its task is {reference}; --task FILE says where it is now)") from None
        if digest(opened.sources) != issued.task.digest:
            raise CertificateError(
                f"{reference}: is not the task of the certificate any more; give the file as it was with --task FILE"
            )
        return compare(issued, judge.judge(reference, issued.source, progress))


def trusted_reference(issued: Certificate) -> str:
    """The task that the certificate names. To open one is to run its file, which another judge must not choose."""
    reference = issued.task.reference
    if issued.judge != public_key(judge_key()) and parse(reference).name not in builtin_names():
        raise CertificateError(
            f"the certificate was signed by another judge and names {reference}; give the file that you trust with "
            "--task"
        )
    return reference


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
    return Replay(
        same=same_outcome and all(speed.overlap for speed in speeds.compared) if comparable else None,
        outcome=f"{now.verdict} ({now.reason}), was {then.verdict} ({then.reason})",
        artefact="the same bytes" if then.artefact == now.artefact else "built by another toolchain",
        device="the same class" if same_device else f"{now.conditions.device}, was {then.conditions.device}",
        speeds=speeds.compared,
        not_compared=speeds.left_out,
        verdict=now,
    )


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
