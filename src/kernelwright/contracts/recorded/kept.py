"""Portable kernels of recorded candidates in the cache: looking for a formula takes dozens of recordings."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path

from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.model import PortableBuild, PortableRequest
from kernelwright.contracts.portable import PortableKernel, digest_of
from kernelwright.paths import cache_dir, write_whole

CONTRACTS = Path(__file__).resolve().parents[1]
CODE = (".py", ".cpp", ".h", ".cuh")


def place_of(candidate: Candidate, request: PortableRequest, compiler: str) -> Path:
    """The name tells all that the result depends on."""
    shapes = [repr(request.symbolic), repr([sorted(sizes.items()) for sizes, _ in request.listed])]
    told = (_code(), compiler, candidate.contract, candidate.source, request.task, *shapes, repr(request.target))
    digest = hashlib.sha256("\0".join((*told, str(request.listed_only))).encode()).hexdigest()
    return cache_dir("recorded", digest[:2]) / f"{digest}.json"


@cache
def _code() -> str:
    whole = hashlib.sha256()
    for path in sorted(path for path in CONTRACTS.rglob("*") if path.suffix in CODE):
        whole.update(f"{path.relative_to(CONTRACTS)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def read_kept(path: Path) -> PortableBuild | None:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        binaries = {name: base64.b64decode(text) for name, text in raw["binaries"].items()}
        found = PortableBuild(PortableKernel.read(raw["kernel"]), binaries, raw["note"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if all(digest_of(content) == name for name, content in binaries.items()) else None


def keep(path: Path, made: PortableBuild) -> None:
    """A cache that cannot be written costs time and nothing else."""
    binaries = {name: base64.b64encode(content).decode() for name, content in made.binaries.items()}
    text = json.dumps({"kernel": made.kernel.text(), "note": made.note, "binaries": binaries})
    try:
        write_whole(path, text.encode())
    except OSError:
        return
