"""What an auditor may read of a run's best: its certificates, which lie outside of the run's directory."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.judge import certificate as certificates
from kernelwright.judge.certificate import CertificateError
from kernelwright.judge.verdict import Verdict
from kernelwright.search.score import pooled
from kernelwright.search.state import Entry


@dataclass(frozen=True)
class Proof:
    """`verdict` joins the judgings of the final that was won, and of no other: an undecided one of before is not what
    the score is of. Each of the named certificates can be replayed."""

    verdict: Verdict
    names: tuple[str, ...]


def proof_of(entry: Entry) -> Proof | None:
    """None where the certificates are not here any more, or belong to another judge's state."""
    verdict: Verdict | None = None
    names = []
    for name in entry.proof:
        try:
            issued = certificates.read(certificates.find(name))
        except CertificateError:
            continue
        if issued.terms.public_only or not issued.terms.safety:
            continue  # a quick judging proves nothing
        verdict = issued.verdict if verdict is None else pooled(verdict, issued.verdict)
        names.append(name)
    return None if verdict is None else Proof(verdict, tuple(names))
