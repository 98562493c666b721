"""The contracts there are: the built-in ones, those of installed packages, and those that a program registers.

A package offers a contract as an entry point of the group `kernelwright.contracts`, so that every process finds it,
the server included. `register` is for one process alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.model import Contract, GpuContract, HostContract
from kernelwright.devices.names import Kind
from kernelwright.errors import KernelwrightError
from kernelwright.paths import printable

GROUP = "kernelwright.contracts"
_BUILT_IN = {  # the first one of a device is its usual contract
    "cpp": "kernelwright.contracts.cpp:CPP",
    "cuda": "kernelwright.contracts.cuda:CUDA",
    "extension": "kernelwright.contracts.extension:EXTENSION",
    "triton": "kernelwright.contracts.triton:TRITON",
    "modelnew": "kernelwright.contracts.modelnew:MODELNEW",
}
_registered: dict[str, Contract] = {}


def register(contract: Contract) -> None:
    """Adds a contract to those of this process."""
    if contract.name in names():
        raise KernelwrightError(f"there is a contract {contract.name!r} already: give this one another name")
    _registered[contract.name] = contract


def unregister(name: str) -> None:
    """Takes back what `register` added."""
    del _registered[name]


def names() -> tuple[str, ...]:
    """Of all contracts, the built-in ones first. Loads none of them."""
    return tuple(dict.fromkeys((*_BUILT_IN, *_installed(), *_registered)))


def contracts() -> Iterator[Contract]:
    """All contracts, each loaded when it is its turn."""
    return (contract_named(name) for name in names())


def contract_named(name: str) -> Contract:
    """The contract with this name, or one line that lists those there are."""
    if name in _BUILT_IN:
        return _built_in(name)
    if name in _registered:
        return _registered[name]
    if name in _installed():
        return _loaded(name)
    raise CandidateError(f"unknown contract {name!r}: choose from {', '.join(names())}")


def fingerprint(candidate: Candidate) -> str:
    """What candidates share that are the same program: their contract takes comments and layout out of the source."""
    text = contract_named(candidate.contract).normalised(candidate.source)
    return hashlib.sha256(f"{candidate.contract}\0{text}".encode()).hexdigest()[:16]


def host_contract(name: str) -> HostContract:
    found = contract_named(name)
    if not isinstance(found, HostContract):
        raise CandidateError(f"{name} candidates are not built for the CPU")
    return found


def gpu_contracts() -> Iterator[GpuContract]:
    return (contract for contract in contracts() if isinstance(contract, GpuContract))


def usual_contract(device: Kind) -> str:
    """The form that candidates for a kind of device take where none is named."""
    return next(contract.name for contract in contracts() if contract.device == device)


def read_source(path: Path, contract: str | None = None) -> Candidate:
    """A candidate of the contract or, if none is named, of the first one that takes a path of this form."""
    if contract is not None:
        return contract_named(contract).read(path)
    for one in contracts():
        if one.takes(path):
            return one.read(path)
    shown = printable(str(path))
    if not path.exists():
        raise CandidateError(f"{shown}: no such file")
    what = "is a directory, and no contract takes it" if path.is_dir() else "no contract takes this source"
    forms = "; ".join(f"{one.name} takes {one.form}" for one in contracts())
    raise CandidateError(f"{shown}: {what}: {forms}; give --contract NAME where the name does not show it")


def installed() -> tuple[str, ...]:
    """The contracts of installed packages, each with its package and version."""
    found = []
    for name, point in sorted(_installed().items()):
        package = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
        found.append(f"{name} = {point.value} of {package}")
    return tuple(found)


@cache
def _built_in(name: str) -> Contract:
    module, _, attribute = _BUILT_IN[name].partition(":")
    found: Contract = getattr(import_module(module), attribute)
    return found


@cache
def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in _BUILT_IN}


@cache
def _loaded(name: str) -> Contract:
    point = _installed()[name]
    package = point.dist.name if point.dist else "an installed package"
    try:
        found = point.load()
    except Exception as error:  # whatever a package raises while it is imported
        raise KernelwrightError(f"the contract {name!r} of {package} cannot be loaded: {error}") from error
    if not isinstance(found, Contract) or found.name != name:
        raise KernelwrightError(f"the contract {name!r} of {package}: {point.value} is not a contract of that name")
    return found
