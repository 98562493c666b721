"""A candidate: source that claims to do a task. Identified by the hash of its content, and immutable."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.paths import printable

MAX_BYTES = 1 << 20
A_LINK = "is a link; put the file itself there"


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


def read_candidate(path: Path, contract: str, *, links: bool = True) -> Candidate:
    """Reads one source file, refusing what cannot be source before anything else looks at it.

    `links=False` where whoever wrote the file may have fewer rights than whoever reads it: a link, of either kind,
    would show him what he cannot read. It is opened once, so that what is looked at is what is read.
    """
    shown = printable(str(path))
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW))
    except FileNotFoundError:
        raise CandidateError(f"{shown}: no such file") from None
    except OSError as error:
        linked = error.errno == errno.ELOOP and not links
        raise CandidateError(f"{shown}: {A_LINK if linked else error.strerror}") from error
    try:
        text = _read(handle, contract, links=links).decode("utf-8")
    except _Unfit as error:
        raise CandidateError(f"{shown}: {error}") from None
    except OSError as error:
        raise CandidateError(f"{shown}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise CandidateError(f"{shown}: is not UTF-8 text; give the source, not a binary") from None
    finally:
        os.close(handle)
    if "\0" in text:
        raise CandidateError(f"{shown}: has NUL bytes; give the source, not a binary")
    if not text.strip():
        raise CandidateError(f"{shown}: is empty")
    return Candidate(contract, text, printable(path.name))


class _Unfit(Exception):  # noqa: N818 - it names an outcome
    """Why an open file cannot be a source."""


def _read(handle: int, contract: str, *, links: bool) -> bytes:
    info = os.fstat(handle)
    if stat.S_ISDIR(info.st_mode):
        raise _Unfit(f"is a directory; the {contract} contract takes one source file")
    if not stat.S_ISREG(info.st_mode):
        raise _Unfit("is not a regular file")
    if info.st_nlink > 1 and not links:
        raise _Unfit(A_LINK)
    size, content = info.st_size, b""
    if size <= MAX_BYTES:
        with open(handle, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
        size = len(content)  # it may have grown
    if size > MAX_BYTES:
        raise _Unfit(f"has {size:,} bytes; a source has at most {MAX_BYTES:,}")
    return content
