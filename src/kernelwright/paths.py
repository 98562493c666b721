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
