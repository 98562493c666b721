"""Certificates: everything needed to repeat a verdict, signed by the judge that gave it.

A certificate holds what an author must not see (hidden workloads, the candidate's subkey), so it is kept in the
judge's own state directory, which only its owner can read, and never in a directory that a proposer reads.
"""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import Field, ValidationError

from kernelwright.archives import SEPARATOR, SUFFIX, ResultArchive, read_archive, split_name
from kernelwright.contracts import Candidate
from kernelwright.contracts import candidate as candidates
from kernelwright.devices.cpu import probe
from kernelwright.errors import KernelwrightError
from kernelwright.judge.evaluation import Evaluation
from kernelwright.judge.keys import code_hash, derive, version_of
from kernelwright.judge.oracle_client import WorkloadSpec
from kernelwright.judge.strangers.bounds import OutOfBoundsError, require_bounded
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Verdict, VerdictPart
from kernelwright.paths import state_dir, write_whole
from kernelwright.tasks.loading import digest
from kernelwright.tasks.model import Workload
from kernelwright.version import __version__

MAX_BYTES = 32 << 20
HEX = r"^[0-9a-f]+$"
MAX_COLLECTED = 10_000
MAX_NAME = 240  # of a file
MAX_WORKLOADS, MAX_SIZES = 64, 32
MAX_BASELINES = 16
MAX_SEED = (1 << 63) - 1
Line = Annotated[str, Field(max_length=1024)]  # a name, a version, a path
Hash = Annotated[str, Field(pattern=HEX, min_length=64, max_length=64)]


class CertificateError(KernelwrightError):
    """A file that is not a certificate, or was altered after it was signed."""


class CertifiedCandidate(VerdictPart):
    contract: Line
    name: Line
    source: str = Field(max_length=candidates.MAX_BYTES)
    id: Line


class CertifiedTask(VerdictPart):
    """`digest` covers the task's files; the files themselves are the user's and are not in here. `files` has the hash
    of each, so that a file can be compared before it is imported; certificates of before do not have it."""

    reference: Line
    name: Line
    digest: Line
    files: tuple[Hash, ...] = Field((), max_length=1024)


class CertifiedSettings(VerdictPart):
    """How it was judged."""

    baselines: tuple[Line, ...] = Field(max_length=MAX_BASELINES)
    threads: int = Field(ge=1)
    effort: Sampling
    public_only: bool
    safety: bool
    domain: bool = False  # of certificates that were issued before there was such a check
    device: Line = "cpu"


class HiddenWorkload(VerdictPart):
    sizes: tuple[tuple[Line, Annotated[int, Field(ge=0, le=MAX_SEED)]], ...] = Field(max_length=MAX_SIZES)
    dtype: Line

    @property
    def workload(self) -> Workload:
        return Workload(self.sizes, self.dtype, hidden=True)


class CertifiedFailure(VerdictPart):
    """The values on which a rejected candidate failed: by family, special values and seed, in the named run of a
    workload."""

    run: Line
    family: Line
    seed: int = Field(ge=0, le=MAX_SEED)
    special: Line = ""


class CertifiedEnvironment(VerdictPart):
    """Where it was judged. On a GPU `compiler` is NVRTC, and `device` names the GPU."""

    judge_version: Line
    judge_code: Line
    python: Line
    torch: Line
    kernel: Line
    cpu: Line
    cores: int
    compiler: Line
    device: Line | None = None
    driver: Line | None = None


class Certificate(VerdictPart):
    schema_version: Literal[1] = 1
    issued: Line
    judge: Hash  # its public key
    candidate: CertifiedCandidate
    task: CertifiedTask
    settings: CertifiedSettings = Field(alias="terms")  # the word of certificates that were issued before
    hidden: tuple[HiddenWorkload, ...] = Field(max_length=MAX_WORKLOADS)
    # Beside them, for sanitizers that others are too heavy for.
    lighter: tuple[HiddenWorkload, ...] = Field((), max_length=MAX_WORKLOADS)
    subkey: Hash
    checks: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")  # the key of the domain check's points
    failure: CertifiedFailure | None = None
    environment: CertifiedEnvironment
    verdict: Verdict

    @property
    def source(self) -> Candidate:
        return Candidate(self.candidate.contract, self.candidate.source, self.candidate.name)

    @property
    def hidden_workloads(self) -> tuple[Workload, ...]:
        return tuple(one.workload for one in self.hidden)

    @property
    def lighter_workloads(self) -> tuple[Workload, ...]:
        return tuple(one.workload for one in self.lighter)


class Signed(VerdictPart):
    certificate: Certificate
    signature: str


def issue(key: bytes, judging: Evaluation, verdict: Verdict) -> Signed:
    signer = _signer(key)
    settings, task, failing_draw = judging.settings, judging.task, judging.failing_draw
    issued = Certificate(
        issued=datetime.now(UTC).isoformat(timespec="seconds"),
        judge=signer.public_key().public_bytes_raw().hex(),
        candidate=CertifiedCandidate(
            contract=judging.candidate.contract,
            name=judging.candidate.name,
            source=judging.candidate.source,
            id=judging.candidate.id,
        ),
        task=CertifiedTask(
            reference=task.reference,
            name=task.name,
            digest=digest(task.sources),
            files=tuple(sorted(part for _, part in task.sources)),
        ),
        terms=CertifiedSettings(
            baselines=settings.baselines,
            threads=judging.workshop.threads,
            effort=settings.effort,
            public_only=settings.public_only,
            safety=settings.safety,
            domain=settings.checks_domain,
            device=str(settings.device),
        ),
        hidden=_named(judging.hidden),
        lighter=_named(judging.inspection_plan.lighter),
        subkey=judging.subkey.hex(),
        checks=judging.check_key.hex() if settings.checks_domain else "",
        failure=CertifiedFailure(run=judging.failed_on or "", **asdict(failing_draw)) if failing_draw else None,
        environment=_environment(verdict),
        verdict=verdict,
    )
    plain = json.loads(issued.model_dump_json(by_alias=True))
    return Signed(certificate=issued, signature=signer.sign(_canonical(plain)).hex())


def _named(specs: tuple[WorkloadSpec, ...]) -> tuple[HiddenWorkload, ...]:
    return tuple(HiddenWorkload(sizes=one.workload.sizes, dtype=one.workload.dtype) for one in specs)


def public_key(key: bytes) -> str:
    """By which a judge's certificates are known."""
    return _signer(key).public_key().public_bytes_raw().hex()


def _signer(key: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(derive(key, "certificates"))


def _environment(verdict: Verdict) -> CertifiedEnvironment:
    return CertifiedEnvironment(
        judge_version=__version__,
        judge_code=code_hash(),
        python=platform.python_version(),
        torch=version_of("torch"),
        kernel=platform.release(),
        cpu=probe().model,
        cores=len(probe().cores),
        compiler=verdict.conditions.compiler,
        device=verdict.conditions.device,
        driver=verdict.conditions.driver,
    )


def folder() -> Path:
    return state_dir("certificates")


def store(signed: Signed) -> str:
    """Keeps a certificate where only its owner reads it, and says its name."""
    issued = signed.certificate
    name = f"{issued.task.name.replace(':', '-')}-{issued.candidate.id}-{os.urandom(4).hex()}"
    write_whole(folder() / f"{name}.json", signed.model_dump_json(indent=1, by_alias=True).encode(), mode=0o600)
    return name


def find(given: str) -> Path:
    """A certificate by its path, or by the name that `judge` printed."""
    path = Path(given)
    if not path.exists() and "/" not in given:
        path = folder() / f"{given.removesuffix('.json')}.json"
    if path.is_dir():
        raise CertificateError(f"{given}: is a directory; give the certificate's file")
    if not path.is_file():
        raise CertificateError(f"{given}: no such certificate; yours are kept in {folder()}")
    return path


def kept(name: str) -> Path:
    """A certificate by the name that `store` gave it. A journal may name anything: nothing else is opened."""
    if "/" in name or not name.isprintable() or not name.strip(".") or len(name) > MAX_NAME:
        raise CertificateError(f"{name!r:.80}: is not the name of a certificate that is kept here")
    return find(str(folder() / f"{name.removesuffix('.json')}.json"))


def load(given: str) -> Certificate:
    """The certificate that a path, a name or ARCHIVE::NAME says."""
    archived = split_name(given)
    if archived is None:
        return read(find(given))
    archive, wanted = read_archive(archived[0]), archived[1]
    known = _names(archive)
    found = [wanted] if wanted in known else [name for name in known if _is_called(name, wanted)]
    if len(found) == 1:
        return parse(archive.files[found[0]], f"{archive.path}{SEPARATOR}{found[0]}")
    lister = f"`kernelwright replay {archive.path}` lists them"
    if not found:
        raise CertificateError(f"{archive.path}: has no certificate {wanted!r:.80}; {lister}")
    names = ", ".join(known[name] for name in found)
    raise CertificateError(f"{archive.path}: {wanted!r:.80} names {len(found)} certificates ({names}); {lister}")


def load_all(path: Path) -> dict[str, Certificate]:
    """Every certificate of an archive, by the name that `load` knows it by."""
    archive = read_archive(path)
    return {shown: parse(archive.files[name], f"{path}{SEPARATOR}{name}") for name, shown in _names(archive).items()}


def collect(given: Sequence[str]) -> dict[str, Certificate | CertificateError]:
    """Every certificate of files, archives and folders that hold either, by the name that `load` knows it by, each
    once. One that cannot be read has its error, so that the others are not lost. Links are not followed."""
    found: dict[str, Certificate | CertificateError] = {}
    for one in given:
        path = Path(one)
        parts = _files_below(path) if path.is_dir() and not path.is_symlink() else [one]
        for part in parts:
            if len(found) > MAX_COLLECTED:
                raise CertificateError(f"{one}: holds more than {MAX_COLLECTED:,} certificates")
            found |= _collected(part)
    once: dict[str, Certificate | CertificateError] = {}
    seen: set[str] = set()
    for name, issued in found.items():
        content = issued.model_dump_json() if isinstance(issued, Certificate) else name
        if content not in seen:
            seen.add(content)
            once[name] = issued
    return once


def _files_below(folder: Path) -> list[str]:
    found = []
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            archive = name.endswith(SUFFIX)
            if not path.is_symlink() and path.is_file() and (archive or _looks_certified(path)):
                found.append(str(path))
    return sorted(found)


def _looks_certified(path: Path) -> bool:
    if path.suffix != ".json" or path.stat().st_size > MAX_BYTES:
        return False
    raw = path.read_bytes()
    return b'"subkey"' in raw and b'"signature"' in raw


def _collected(given: str) -> dict[str, Certificate | CertificateError]:
    archived = split_name(given)
    if archived is None or archived[1]:
        try:
            return {given: load(given)}
        except CertificateError as error:
            return {given: error}
    found: dict[str, Certificate | CertificateError] = {}
    archive = read_archive(archived[0])
    for member, shown in _names(archive).items():
        name = f"{given.removesuffix(SEPARATOR)}{SEPARATOR}{shown}"
        try:
            found[name] = parse(archive.files[member], name)
        except CertificateError as error:
            found[name] = error
    return found


def _names(archive: ResultArchive) -> dict[str, str]:
    """For each certificate's file the name to show: the short one, or the file where that is not one certificate's."""
    members = _certificates(archive)
    count = Counter(map(short_name, members))
    return {name: short_name(name) if count[short_name(name)] == 1 else name for name in members}


def _certificates(archive: ResultArchive) -> list[str]:
    files = archive.files.items()
    return sorted(
        name for name, raw in files if name.endswith(".json") and b'"subkey"' in raw and b'"signature"' in raw
    )


def short_name(member: str) -> str:
    """What tells a certificate apart from others of its candidate: the end of its file's name, as `store` made it."""
    return PurePosixPath(member).stem.rpartition("-")[2]


def _is_called(member: str, wanted: str) -> bool:
    """By its file in the archive, that file's name, the end of that name, or the folder or task that it belongs to."""
    path = PurePosixPath(member)
    names = {member, member.removesuffix(".json"), path.name, path.stem, short_name(member), *path.parts[:-1]}
    return wanted in names | {part.partition("@")[0] for part in path.parts[:-1]}


def read(path: Path) -> Certificate:
    """The certificate in a file, if it is as its judge signed it."""
    try:
        raw = path.read_bytes() if path.stat().st_size <= MAX_BYTES else b""
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from error
    return parse(raw, str(path))


def parse(raw: bytes, name: str) -> Certificate:
    try:
        outer = json.loads(raw, object_pairs_hook=_without_duplicates)
        require_bounded(outer)
        body, signature = outer["certificate"], bytes.fromhex(outer["signature"])
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(body["judge"])).verify(signature, _canonical(body))
    except InvalidSignature:
        raise CertificateError(f"{name}: was altered after it was signed; nothing in it can be relied on") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        why = str(error) if isinstance(error, OutOfBoundsError) else type(error).__name__
        raise CertificateError(f"{name}: is not a certificate ({why})") from None
    try:
        signed = Signed.model_validate(outer)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CertificateError(
            f"{name}: is of another kind than this version reads ({place}: {first['msg']})"
        ) from None
    _consistent(signed.certificate, name)
    return signed.certificate


def _consistent(issued: Certificate, name: str) -> None:
    """A signature does not make it sound: anything can be signed with a key of one's own."""
    if not issued.source.id == issued.candidate.id == issued.verdict.candidate:
        raise CertificateError(f"{name}: its source is not the one that was judged")
    if issued.task.name != issued.verdict.task:
        raise CertificateError(f"{name}: its verdict is on another task")
    if issued.task.files and digest(tuple(("", part) for part in issued.task.files)) != issued.task.digest:
        raise CertificateError(f"{name}: the hash of its task is not that of the task's files")
    if len(issued.candidate.source.encode()) > candidates.MAX_BYTES or "\0" in issued.candidate.source:
        raise CertificateError(f"{name}: its source is not one that a judge takes")
    if issued.failure is not None and issued.verdict.verdict is not Outcome.rejected:
        raise CertificateError(
            f"{name}: has values on which its candidate failed, and does not say that it was rejected"
        )
    if issued.verdict.conditions.threads != issued.settings.threads:
        raise CertificateError(f"{name}: its verdict is of another number of threads than its terms")
    hidden = {(one.label, one.dtype) for one in issued.hidden_workloads}
    for result in issued.verdict.workloads:
        if result.hidden and (result.label, result.dtype) not in hidden:
            raise CertificateError(f"{name}: its verdict is on a hidden workload that it does not name")
        if not {one.baseline for one in result.baselines} <= set(issued.settings.baselines):
            raise CertificateError(f"{name}: its verdict is over a baseline that its terms do not have")
        times = [one.seconds for one in result.baselines]
        ends = [(one.speedup.low, one.speedup.high) for one in result.baselines]
        if not all(time > 0 for time in times) or not all(0 < low <= high for low, high in ends):
            raise CertificateError(f"{name}: has times or speedups that cannot be measured")


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found
