"""Our own small programs (warden, runner and others), compiled once per source and compiler, outside any sandbox."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

from kernelwright.errors import CannotDecide
from kernelwright.paths import cache_dir, write_whole

SOURCES = Path(__file__).parent / "native"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer")

_FLAGS: dict[str, tuple[str, ...]] = {
    "warden": ("-O2",),
    "runner": ("-O2", "-ldl"),
    "runner-sanitized": ("-O1", *SANITIZERS, "-ldl"),
    "flush.so": ("-O2", "-shared", "-fPIC"),
    "libraries.so": ("-fopenmp", "-shared", "-fPIC", "-Wl,--no-as-needed", "-lm", "-lpthread"),
}


@cache
def compiler() -> str:
    """The C++ compiler, by `CXX` or the usual name."""
    wanted = os.environ.get("CXX") or "g++"
    found = shutil.which(wanted)
    if found is None:
        raise CannotDecide(f"no C++ compiler: {wanted!r} is not on PATH; install g++ (Debian: apt-get install g++)")
    return found


@cache
def compiler_version() -> str:
    result = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=False)
    return result.stdout.splitlines()[0] if result.returncode == 0 and result.stdout else "unknown"


@cache
def program(name: str) -> Path:
    """The path of a native program, compiled on first use."""
    source = SOURCES / f"{name.split('-')[0].removesuffix('.so')}.cpp"
    flags = ("-std=c++20", "-Wall", *_FLAGS[name])
    if name == "flush.so" and platform.machine() == "x86_64":
        flags = (*flags, "-mclflushopt")
    digest = hashlib.sha256(compiler_version().encode() + "\0".join(flags).encode())
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    target = cache_dir("native") / f"{digest.hexdigest()[:24]}-{name}"
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
            first = next((line for line in result.stderr.splitlines() if "error" in line), result.stderr.strip())
            raise CannotDecide(f"cannot compile the judge's own {source.name} with {compiler()}: {first}")
        write_whole(target, partial.read_bytes(), mode=0o755)
    except OSError as error:
        raise CannotDecide(f"cannot write {target}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
