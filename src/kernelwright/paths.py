"""Where Kernelwright keeps things: a cache that may be deleted at any time, and state that may not."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def _base(variable: str, fallback: str) -> Path:
    home = os.environ.get("KERNELWRIGHT_HOME")
    if home:
        return Path(home) / ("cache" if variable == "XDG_CACHE_HOME" else "state")
    return Path(os.environ.get(variable) or Path.home() / fallback) / "kernelwright"


def cache_dir(*parts: str) -> Path:
    """A directory below the cache, made if need be."""
    path = _base("XDG_CACHE_HOME", ".cache").joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


def state_dir(*parts: str) -> Path:
    """A directory below the state (the judge's key), readable by its owner alone."""
    path = _base("XDG_STATE_HOME", ".local/state").joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters that count as printable and show nothing


def printable(name: str) -> str:
    """A file's name as text for people and for JSON: bytes that are no UTF-8, control characters, and letters that look
    like blanks are spelt out."""
    return "".join(letter if letter.isprintable() and letter not in BLANK else _spelt(letter) for letter in name)


def _spelt(letter: str) -> str:
    """Python has a byte that is not text as a surrogate, 0xdc00 above it."""
    byte = ord(letter) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else letter.encode("unicode_escape").decode("ascii")


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a file so that a reader, or a crash, sees all of it or none of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)  # of the file, since others may have put something else under its name
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
