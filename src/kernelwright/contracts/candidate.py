"""A candidate: source that claims to do a task. Identified by the hash of its content, and immutable."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path

from kernelwright.errors import KernelwrightError

MAX_BYTES = 1 << 20


class CandidateError(KernelwrightError):
    """A source that is not a candidate at all, so that there is nothing to judge."""


@dataclass(frozen=True)
class Candidate:
    contract: str
    source: str
    name: str = ""

    @property
    def id(self) -> str:
        """The hash of contract and source, short enough to read aloud; the name does not count."""
        return hashlib.sha256(f"{self.contract}\0{self.source}".encode()).hexdigest()[:16]


def read_candidate(path: Path, contract: str) -> Candidate:
    """Reads one source file, refusing what cannot be source before anything else looks at it."""
    try:
        info = path.stat()
    except FileNotFoundError:
        raise CandidateError(f"{path}: no such file") from None
    except OSError as error:
        raise CandidateError(f"{path}: {error.strerror}") from error
    if stat.S_ISDIR(info.st_mode):
        raise CandidateError(f"{path}: is a directory; the {contract} contract takes one source file")
    if not stat.S_ISREG(info.st_mode):
        raise CandidateError(f"{path}: is not a regular file")
    if info.st_size > MAX_BYTES:
        raise CandidateError(f"{path}: has {info.st_size:,} bytes; a source has at most {MAX_BYTES:,}")
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise CandidateError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise CandidateError(f"{path}: is not UTF-8 text; give the source, not a binary") from None
    if "\0" in text:
        raise CandidateError(f"{path}: has NUL bytes; give the source, not a binary")
    if not text.strip():
        raise CandidateError(f"{path}: is empty")
    return Candidate(contract, text, path.name)
