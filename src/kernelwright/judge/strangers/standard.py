"""What a verdict has to be judged on today to count as proof, and what a certificate lacks of it.

Who signs a certificate chooses how much it was judged on. A replay on less repeats it, and proves no more than it did.
"""

from __future__ import annotations

from kernelwright.devices.names import device_named
from kernelwright.isolation.levels import Level
from kernelwright.judge.baseline_names import usual
from kernelwright.judge.certificate import Certificate
from kernelwright.judge.settings import HIDDEN_PER_EVALUATION
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Verdict

COMPILED = "compile"


def below_standard(issued: Certificate, now: Verdict | None = None) -> tuple[str, ...]:
    """In words, what it was judged on less than is usual now; empty where nothing is missing.

    `now` is the verdict of a replay, which says how far its own processes were confined: what the certificate says of
    that is not looked at.
    """
    settings = issued.settings
    found = []
    if settings.effort.least < Sampling().least:
        found.append(f"{settings.effort.least} blocks at least, where {Sampling().least} are usual")
    if settings.public_only:
        found.append("public workloads alone")
    elif len(issued.hidden) < HIDDEN_PER_EVALUATION and issued.verdict.verdict is Outcome.accepted:
        found.append(f"{len(issued.hidden)} hidden workloads, where {HIDDEN_PER_EVALUATION} are usual")
    if not settings.safety:
        found.append("no sanitizers")
    missing = [name for name in usual(device_named(settings.device).kind) if not _has(settings.baselines, name)]
    if missing:
        found.append(f"without the baseline {' and '.join(missing)}")
    found += _domain(now or issued.verdict)
    if now is not None and now.conditions.sandbox != Level.full:
        found.append(f"isolation {now.conditions.sandbox} here, and not full")
    return tuple(found)


def _has(baselines: tuple[str, ...], name: str) -> bool:
    """A baseline, or one that takes its place: every other compile is at least as fast as the usual one."""
    return name in baselines or (name == COMPILED and any(one.startswith(COMPILED) for one in baselines))


def _domain(verdict: Verdict) -> list[str]:
    """Whether the declared domain was checked; a rejection needs none of it."""
    if verdict.verdict is not Outcome.accepted:
        return []
    if verdict.domain is None:
        return ["no check of the domain"]
    return ["a part of the domain was not checked"] if verdict.partial_domain else []
