"""Which certificates speak for a kernel, whose they are, and what they are worth today.

A certificate is looked for in this installation's own state and beside the run, in `certificates/`, as an archive of
runs has them. Wherever it lies it proves something only if a trusted key signed it, it is about this candidate and this
task, and all of them together say what the journal says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelwright.archives import SEPARATOR
from kernelwright.judge import certificate as certificates
from kernelwright.judge.certificate import Certificate, CertificateError
from kernelwright.judge.keys import code_hash
from kernelwright.judge.strangers.standard import below_standard
from kernelwright.judge.strangers.trusted import signature_of
from kernelwright.judge.verdict import Outcome, Verdict
from kernelwright.report.model import CertificateView, ProofStanding
from kernelwright.search.core.events import Started
from kernelwright.search.core.score import pooled, score
from kernelwright.search.core.state import Entry
from kernelwright.search.summary import SAME_SCORE

BESIDE = "certificates"


@dataclass(frozen=True)
class Speaking:
    """What certificates say of a kernel. `verdict` is None where none could be read that is about it."""

    standing: ProofStanding
    why: str = ""
    verdict: Verdict | None = None
    certificates: tuple[tuple[str, Certificate], ...] = ()


def speaking_for(run: Started, entry: Entry, folder: Path) -> Speaking:
    """The certificates of the final that made a candidate the best."""
    found: list[tuple[str, Certificate]] = []
    verdict: Verdict | None = None
    for name in entry.final.proof:
        try:
            issued = _located(name, folder)
        except CertificateError as error:
            return Speaking(ProofStanding.claimed, str(error))
        if fault := _not_about(issued, run, entry):
            return Speaking(ProofStanding.claimed, f"its certificate {fault}")
        if is_full(issued):  # a quick judging proves nothing
            found.append((name, issued))
            verdict = issued.verdict if verdict is None else pooled(verdict, issued.verdict)
    if verdict is None:
        return Speaking(ProofStanding.claimed, "there is no certificate of its final")
    proved = score(verdict)
    if proved is None or entry.score is None or not math.isclose(proved, entry.score, rel_tol=SAME_SCORE):
        told = "no speed" if proved is None else f"{proved:.2f}×"
        return Speaking(ProofStanding.claimed, f"its certificates prove {told}, and the journal says otherwise")
    return of_certificates(dict(found), verdict)


def of_certificates(found: Mapping[str, Certificate], verdict: Verdict) -> Speaking:
    unknown = [signed for issued in found.values() if not (signed := signature_of(issued)).trusted]
    standing = ProofStanding.signed if unknown else ProofStanding.proved
    return Speaking(standing, str(unknown[0]) if unknown else "", verdict, tuple(found.items()))


def is_full(issued: Certificate) -> bool:
    """Whether it is of a judging on hidden workloads and under sanitizers, as a claim needs."""
    return issued.settings.safety and not issued.settings.public_only


def certificate_view(name: str, issued: Certificate, archive: str = "") -> CertificateView:
    """`archive` is the file that it lies in, where it does not lie in this installation's state."""
    given = f"{archive}{SEPARATOR}{certificates.short_name(name)}" if archive else name
    return CertificateView(
        name=name,
        issued=issued.issued,
        signed=str(signature_of(issued)),
        replay=f"kernelwright replay {given}",
        below=below_standard(issued),
        same_judge=issued.environment.judge_code == code_hash(),
        environment=issued.environment,
    )


def beside(folder: Path) -> Iterator[tuple[str, Certificate]]:
    """The certificates in a folder that has no run, by the names of their files."""
    for path in sorted(folder.glob("*.json")):
        if path.is_file() and not path.is_symlink():
            yield path.stem, certificates.read(path)


def _located(name: str, folder: Path) -> Certificate:
    """A journal may name anything. Messages do not say where this installation keeps its state: pages travel."""
    try:
        kept = certificates.kept(name)
    except CertificateError:
        kept = None
    if kept is not None:
        return _read(kept, name)
    path = folder / BESIDE / f"{name.removesuffix('.json')}.json"
    if "/" in name or not name.isprintable() or not path.is_file() or path.is_symlink():
        raise CertificateError("its certificate is not on this machine")
    return _read(path, name)


def _read(path: Path, name: str) -> Certificate:
    try:
        return certificates.parse(path.read_bytes() if path.stat().st_size <= certificates.MAX_BYTES else b"", name)
    except OSError as error:
        raise CertificateError(f"{name}: {error.strerror}") from None


def _not_about(issued: Certificate, run: Started, entry: Entry) -> str:
    if issued.candidate.id != entry.proposal.candidate.id:
        return "is about another candidate"
    same_files = not run.task_digest or issued.task.digest == run.task_digest  # which old journals do not have
    if issued.task.name != run.task_name or not same_files:
        return "is about another task"
    return "says that the candidate is rejected" if issued.verdict.verdict is Outcome.rejected else ""
