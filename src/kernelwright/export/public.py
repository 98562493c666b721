"""The public certificate: what travels with a kernel. It proves what is claimed, and holds nothing that is hidden.

The judge's own certificate has the hidden workloads and the candidate's subkey, so that a verdict can be replayed; it
stays where it is. This one is made of it, field by field, and signed with the same key: of hidden workloads it has
their number and the least speedup among them.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import Field, ValidationError

from kernelwright.export.proof import Proved
from kernelwright.export.standalone.manifest import OperationSpec, ProvedVariant, proved_digest
from kernelwright.judge.certificate import CertificateError, Hash, Line
from kernelwright.judge.keys import derive, judge_key
from kernelwright.judge.strangers.bounds import OutOfBoundsError, require_bounded
from kernelwright.judge.strangers.standard import below_standard
from kernelwright.judge.verdict import (
    BaselineTime,
    Conditions,
    ErrorReport,
    IntervalValue,
    SpeedStatus,
    Verdict,
    VerdictPart,
)
from kernelwright.tasks.model import Task

MAX_BYTES = 4 << 20


class PublicWorkload(VerdictPart):
    """A public workload: the median time of the kernel, and each baseline beside it."""

    sizes: dict[Line, int]
    dtype: Line
    speed: SpeedStatus
    seconds: float | None
    baselines: tuple[BaselineTime, ...]
    trials: int
    aa: IntervalValue | None = None


class HiddenAggregate(VerdictPart):
    """All that is told of hidden workloads. `least_speedup`: the least lower end among them, over the best baseline."""

    timed: int
    faster: int
    least_speedup: float | None


class PublicDomain(VerdictPart):
    """The ranges in which a task has to hold, and how the judge looked at them: `points` in `calls` untimed calls."""

    sizes: dict[Line, tuple[int, int]]
    dtypes: tuple[Line, ...]
    points: int | None
    calls: int | None
    classes: int | None
    classes_possible: int | None
    special_values: tuple[Line, ...] = ()
    opted_out: tuple[Line, ...] = ()


class Digests(VerdictPart):
    """`proved` is of the operation and of where the variant is used, as kernel.json has them. `binary` is of the file,
    `code` of what a processor reads of it."""

    source: Hash
    binary: Hash
    code: Line | None
    task: Hash
    reference: Hash
    proved: Hash


class PublicEnvironment(VerdictPart):
    judge_version: Line
    python: Line
    torch: Line
    cpu: Line
    cores: int
    compiler: Line
    device: Line | None = None
    driver: Line | None = None


class PublicCertificate(VerdictPart):
    kind: Literal["kernelwright public certificate"] = "kernelwright public certificate"
    schema_version: Literal[1] = 1
    issued: Line
    judge: Hash
    task: Line
    candidate: Line
    contract: Line
    digests: Digests
    domain: PublicDomain
    workloads: tuple[PublicWorkload, ...] = Field(max_length=256)
    hidden: HiddenAggregate
    errors: tuple[ErrorReport, ...]
    baselines: tuple[Line, ...]
    conditions: Conditions
    environment: PublicEnvironment
    sanitizers: bool
    deterministic: bool | None
    below_standard: tuple[Line, ...]
    judgings: int


class SignedPublic(VerdictPart):
    certificate: PublicCertificate
    signature: str


def publish(
    proved: Proved, operation: OperationSpec, direction: str, variant: ProvedVariant, reference: str
) -> SignedPublic:
    """Of the judgings that prove one kernel, which are all signed here or by a trusted key."""
    issued, verdict, task = proved.certificates, proved.verdict, proved.task
    last = issued[-1]
    signer = Ed25519PrivateKey.from_private_bytes(derive(judge_key(), "certificates"))
    made = PublicCertificate(
        issued=last.issued,
        judge=signer.public_key().public_bytes_raw().hex(),
        task=last.task.name,
        candidate=last.candidate.id,
        contract=last.candidate.contract,
        digests=Digests(
            source=hashlib.sha256(last.candidate.source.encode()).hexdigest(),
            binary=variant.sha256,
            code=verdict.artefact,
            task=last.task.digest,
            reference=reference,
            proved=proved_digest(operation, direction, variant),
        ),
        domain=_domain(task, verdict),
        workloads=tuple(
            PublicWorkload(
                sizes=one.sizes,
                dtype=one.dtype,
                speed=one.speed,
                seconds=one.seconds,
                baselines=one.baselines,
                trials=one.trials,
                aa=one.aa,
            )
            for one in verdict.workloads
            if not one.hidden
        ),
        hidden=_aggregate(verdict),
        errors=verdict.public_errors,
        baselines=last.settings.baselines,
        conditions=verdict.conditions,
        environment=PublicEnvironment(
            **last.environment.model_dump(exclude={"judge_code", "kernel"}),
        ),
        sanitizers=all(one.settings.safety for one in issued),
        deterministic=deterministic(verdict),
        below_standard=below_standard(last),
        judgings=len(issued),
    )
    plain = json.loads(made.model_dump_json())
    return SignedPublic(certificate=made, signature=signer.sign(canonical(plain)).hex())


def deterministic(verdict: Verdict) -> bool | None:
    """Whether a repeated call gave the same bits, on every workload where that was looked at."""
    seen = [one.deterministic for one in verdict.workloads if one.deterministic is not None]
    return all(seen) if seen else None


def _domain(task: Task, verdict: Verdict) -> PublicDomain:
    checked = verdict.domain
    return PublicDomain(
        sizes=dict(task.hidden),
        dtypes=task.dtypes,
        points=checked.points if checked else None,
        calls=checked.calls if checked else None,
        classes=checked.classes if checked else None,
        classes_possible=checked.classes_possible if checked else None,
        special_values=checked.values if checked else (),
        opted_out=checked.opted_out if checked else (),
    )


def _aggregate(verdict: Verdict) -> HiddenAggregate:
    hidden = [one for one in verdict.workloads if one.hidden]
    measured = [one.best_baseline for one in hidden if one.speed is SpeedStatus.measured]
    ends = [one.speedup.low for one in measured if one is not None]
    return HiddenAggregate(
        timed=len(hidden),
        faster=sum(end > 1 for end in ends),
        least_speedup=round(min(ends), 2) if ends else None,
    )


def verified(raw: bytes, name: str) -> PublicCertificate:
    """A public certificate as its judge signed it; whether that judge is trusted is another question."""
    try:
        outer = json.loads(raw if len(raw) <= MAX_BYTES else b"")
        require_bounded(outer)
        body, signature = outer["certificate"], bytes.fromhex(outer["signature"])
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(body["judge"])).verify(signature, canonical(body))
        return SignedPublic.model_validate(outer).certificate
    except InvalidSignature:
        raise CertificateError(f"{name}: was altered after it was signed; nothing in it can be relied on") from None
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise CertificateError(f"{name}: is of another kind than this version reads ({place})") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        why = str(error) if isinstance(error, OutOfBoundsError) else type(error).__name__
        raise CertificateError(f"{name}: is not a public certificate ({why})") from None


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
