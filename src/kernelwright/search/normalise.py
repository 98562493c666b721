"""Whether two candidates say the same: their contract takes comments and layout out; the name does not count."""

from __future__ import annotations

import hashlib

from kernelwright.contracts import Candidate
from kernelwright.contracts.registry import contract_named


def fingerprint(candidate: Candidate) -> str:
    text = contract_named(candidate.contract).normalised(candidate.source)
    return hashlib.sha256(f"{candidate.contract}\0{text}".encode()).hexdigest()[:16]
