"""What a candidate looks like, how it is built, and how an author is told. One module per contract."""

from __future__ import annotations

from pathlib import Path

from kernelwright.contracts import cpp, cuda
from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.cuda.source import KERNEL_NAME
from kernelwright.contracts.model import BuildPlan, Contract, HostContract

HOST_CONTRACTS: dict[str, HostContract] = {contract.name: contract for contract in (cpp.CPP,)}
CONTRACTS: dict[str, Contract] = {**HOST_CONTRACTS, cuda.CUDA.name: cuda.CUDA}
SUFFIXES = {".cu": cuda.CUDA.name, **dict.fromkeys((".cpp", ".cc", ".cxx", ".c++", ".C"), cpp.CPP.name)}


def contract_named(name: str) -> Contract:
    """The contract with this name, or one line that lists those there are."""
    try:
        return CONTRACTS[name]
    except KeyError:
        raise CandidateError(f"unknown contract {name!r}: choose from {', '.join(CONTRACTS)}") from None


def read_source(path: Path, contract: str | None = None) -> Candidate:
    """A candidate of the contract or, if none is named, of the one that its form shows: a `.cu` file, or a directory
    with kernel.cu and plan.py, is `cuda`; a `.cpp` file is `cpp`."""
    return contract_named(contract or _form(path)).read(path)


def _form(path: Path) -> str:
    if (path / KERNEL_NAME).is_file():
        return cuda.CUDA.name
    if path.suffix not in SUFFIXES and path.is_file():
        raise CandidateError(f"{path}: is neither .cpp nor .cu by its name: say with --contract what it is")
    return SUFFIXES.get(path.suffix, cpp.CPP.name)


__all__ = [
    "CONTRACTS",
    "HOST_CONTRACTS",
    "SUFFIXES",
    "BuildPlan",
    "Candidate",
    "CandidateError",
    "Contract",
    "HostContract",
    "contract_named",
    "read_source",
]
