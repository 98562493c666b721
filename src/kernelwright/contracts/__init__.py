"""What a candidate looks like, how it is built, and how an author is told. One module per contract."""

from __future__ import annotations

from kernelwright.contracts import cpp, cuda
from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.model import BuildPlan, Contract

CONTRACTS: dict[str, Contract] = {contract.name: contract for contract in (cpp.CPP, cuda.CUDA)}


def contract_named(name: str) -> Contract:
    """The contract with this name, or one line that lists those there are."""
    try:
        return CONTRACTS[name]
    except KeyError:
        raise CandidateError(f"unknown contract {name!r}: choose from {', '.join(CONTRACTS)}") from None


__all__ = ["CONTRACTS", "BuildPlan", "Candidate", "CandidateError", "Contract", "contract_named"]
