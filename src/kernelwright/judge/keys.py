"""Which judge this is: its secret with everything drawn from it, and a hash of its code.

One subkey never reveals another.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from kernelwright.contracts.registry import installed
from kernelwright.errors import CannotDecide
from kernelwright.paths import state_dir, write_whole

KEY_BYTES = 32
PACKAGE = Path(__file__).parents[1]
SUFFIXES = (".py", ".cpp", ".hpp", ".h", ".cu")
JUDGING = ("devices", "isolation", "tasks", "contracts", "runtime", "judge")  # layers that decide a verdict


def judge_key() -> bytes:
    """This installation's key, made on first use. It gives away the hidden workloads."""
    try:
        path = state_dir() / "judge.key"
        if not path.exists():
            write_whole(path, secrets.token_bytes(KEY_BYTES), mode=0o600)
        key = Path(path).read_bytes()
    except OSError as error:
        raise CannotDecide(f"cannot keep the judge's key: {error.strerror}: {error.filename}") from error
    if len(key) != KEY_BYTES:
        raise CannotDecide(f"{path}: is not a judge key; delete it, and a new one is made")
    return key


def derive(key: bytes, *parts: str | int) -> bytes:
    """A subkey for one purpose. Parts are separated, so that ("a", "bc") and ("ab", "c") differ."""
    message = b"".join(len(text).to_bytes(4, "big") + text for text in (str(part).encode() for part in parts))
    return hmac.new(key, message, hashlib.sha256).digest()


def candidate_key(key: bytes, task_digest: str, task: str, program: str) -> bytes:
    """What an evaluation of a candidate with this fingerprint is drawn from. A certificate may hold it: it gives
    nothing else away."""
    return derive(key, "candidate", task_digest, task, program)


def seed(key: bytes, *parts: str | int) -> int:
    """A subkey as a number, for generators that take one."""
    return int.from_bytes(derive(key, *parts)[:8], "big") >> 1


@cache
def code_hash() -> str:
    """Differs whenever a process started now would not be the same judge as one that is running already."""
    return _hashed(sys.executable, PACKAGE)


@cache
def code_stamp() -> str:
    """As `code_hash`, by the sizes and times of the files and not by what is in them: a command asks this of itself
    each time, and a server that is replaced without need costs less than reading all of them every time."""
    told = [sys.executable, sys.version, version_of("torch"), *installed()]
    for entry in _sources(str(PACKAGE)):
        found = entry.stat()
        told.append(f"{entry.path} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}")
    return hashlib.sha256("\0".join(sorted(told)).encode()).hexdigest()


@cache
def judge_code() -> str:
    """Differs whenever a verdict might be another: as `code_hash`, of the judge and all layers below it alone, and
    wherever they are installed."""
    return _hashed("", *(PACKAGE / layer for layer in JUDGING))


def _hashed(first: str, *folders: Path) -> str:
    whole = hashlib.sha256(f"{first} {sys.version} {version_of('torch')}".encode())
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in SUFFIXES):
        whole.update(f"{path.relative_to(PACKAGE)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for contract in installed():
        whole.update(f"{contract}\0".encode())
    return whole.hexdigest()


def _sources(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path)
            elif entry.name.endswith(SUFFIXES):
                yield entry


def version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
