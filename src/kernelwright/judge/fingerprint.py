"""Which judge this is, to the byte: a hash of our own code, of contracts that others installed, and of torch."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from kernelwright.contracts.registry import installed

PACKAGE = Path(__file__).parents[1]
SUFFIXES = (".py", ".cpp", ".hpp", ".h", ".cu")


@cache
def fingerprint() -> str:
    """Differs whenever a process started now would not be the same judge as one that is running already."""
    whole = hashlib.sha256(f"{sys.executable} {sys.version} {version_of('torch')}".encode())
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in SUFFIXES):
        whole.update(f"{path.relative_to(PACKAGE)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for contract in installed():
        whole.update(f"{contract}\0".encode())
    return whole.hexdigest()


def version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
