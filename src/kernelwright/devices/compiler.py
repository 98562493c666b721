"""The C++ compiler of this machine, and our own small programs, compiled once per source and compiler.

They are compiled outside any sandbox: what is compiled here is ours.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path

from kernelwright.errors import CannotDecide
from kernelwright.paths import cache_dir, write_whole

_VERSIONED = tuple(f"g++-{version}" for version in range(20, 8, -1))
_CACHES = ("ccache", "sccache", "distcc", "icecc")


@cache
def compiler() -> str:
    """The C++ compiler itself, by `CXX` or the usual names.

    Scripts and compiler caches that stand before it are passed over: they reach for what a sandbox does not have.
    """
    wanted = os.environ.get("CXX") or "g++"
    found = _everywhere(wanted)
    if not found:
        raise CannotDecide(f"no C++ compiler: {wanted!r} is not on PATH; install g++ (Debian: apt-get install g++)")
    for path in (*found, *(path for name in _names() for path in _everywhere(name))):
        if _is_program(Path(path).resolve()):
            return path
    raise CannotDecide(
        f"{found[0]} is a script or a compiler cache, which cannot run confined: set CXX to the compiler"
    )


def _names() -> tuple[str, ...]:
    return ("g++", f"{platform.machine()}-linux-gnu-g++", *_VERSIONED)


def _everywhere(name: str) -> list[str]:
    folders = [None] if "/" in name else os.get_exec_path()
    return [found for folder in folders if (found := shutil.which(name, path=folder)) is not None]


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF" and path.name not in _CACHES


@cache
def compiler_version() -> str:
    result = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=False)
    return result.stdout.splitlines()[0] if result.returncode == 0 and result.stdout else "unknown"


_COMPILING = threading.Lock()  # several threads may need the same program first


def compiled(source: Path, name: str, flags: tuple[str, ...]) -> Path:
    """The path of a program of ours, compiled on first use. It may include whatever lies beside its source."""
    flags = ("-std=c++20", "-Wall", *flags)
    digest = hashlib.sha256(compiler_version().encode() + "\0".join(flags).encode())
    for path in sorted(source.parent.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    target = cache_dir("native") / f"{digest.hexdigest()[:24]}-{name}"
    with _COMPILING:
        if not target.exists():
            _compile(source, flags, target)
    return target


def _compile(source: Path, flags: tuple[str, ...], target: Path) -> None:
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    libraries = [flag for flag in flags if flag.startswith("-l")]
    options = [flag for flag in flags if not flag.startswith("-l")]
    command = [compiler(), *options, str(source), "-o", str(partial), *libraries]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            lines = [line for line in result.stderr.splitlines() if not line.startswith("collect2:")]  # it says nothing
            first = next((line for line in lines if "error" in line or "failed" in line), result.stderr.strip())
            raise CannotDecide(f"cannot compile our own {source.name} with {compiler()}: {first}")
        write_whole(target, partial.read_bytes(), mode=0o755)
    except OSError as error:
        raise CannotDecide(f"cannot write {target}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
