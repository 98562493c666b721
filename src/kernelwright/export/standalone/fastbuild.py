"""Builds and finds the fast path: C++ of ours, compiled once for each version of torch, and never unless asked.

A build is looked for in the package itself (`kernelwright export --fast-path` puts it there) and in the user's cache
(`python -m NAME.fastbuild`, `kernelwright.build_fast_path()`). It fits one torch, one Python and one kind of processor;
where there is none that fits, calls are answered by Python, which costs a few microseconds more.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

import torch

NAME = "kernelwright_fastpath"
SOURCES = Path(__file__).parent / "cpp"
MAIN = SOURCES / "fastpath.cpp"
SHIPPED = Path(__file__).parent / "built"
SWITCH = "KERNELWRIGHT_FASTPATH"  # "off": no build is used
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w", f"-DTORCH_EXTENSION_NAME={NAME}")
LIBRARIES = ("torch_python", "torch_cpu", "torch", "c10")
SECONDS = 900
_opening = threading.Lock()
_opened: dict[Path, Any] = {}


class FastPathError(RuntimeError):
    """Why the fast path cannot be built here."""


@cache
def key() -> str:
    """Of all that a build depends on but the compiler: whatever compiled it, it fits this torch and this Python."""
    found = hashlib.sha256()
    parts = [torch.__version__, str(torch.version.git_version), str(sysconfig.get_config_var("SOABI")), *_flags()]
    for part in (*parts, platform.machine()):
        found.update(part.encode() + b"\0")
    for path in sorted(SOURCES.iterdir()):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:24]


def file_name() -> str:
    return f"{NAME}-{key()}.so"


def cache_folder() -> Path:
    home = os.environ.get("KERNELWRIGHT_HOME")
    if home:
        return Path(home) / "cache" / "fastpath"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelwright" / "fastpath"


def find() -> Path | None:
    """The build that fits, if there is one that may be loaded."""
    for folder in (SHIPPED, cache_folder()):
        path = folder / file_name()
        if path.is_file() and (folder == SHIPPED or _is_mine(path)):
            return path
    return None


def open_module() -> Any | None:
    """The build as a module of Python; None where there is none, or where it is switched off."""
    if os.environ.get(SWITCH, "").lower() == "off":
        return None
    path = find()
    if path is None:
        return None
    with _opening:
        if path not in _opened:
            loader = importlib.machinery.ExtensionFileLoader(NAME, str(path))
            spec = importlib.util.spec_from_loader(NAME, loader)
            if spec is None:
                return None
            made = importlib.util.module_from_spec(spec)
            loader.exec_module(made)
            _opened[path] = made
        return _opened[path]


def build() -> Path:
    """Compiles into the cache where there is no build that fits, and gives its file."""
    found = find()
    if found is not None:
        return found
    target = cache_folder() / file_name()
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=target.parent) as partial:
        made = Path(partial) / target.name
        _compile(made)
        made.chmod(0o644)
        made.replace(target)  # whole or not at all, also where two build at once
    return target


def _compile(target: Path) -> None:
    root = Path(torch.__file__).parent
    includes = [root / "include", root / "include/torch/csrc/api/include", Path(sysconfig.get_path("include"))]
    if not (includes[-1] / "Python.h").is_file():
        raise FastPathError(f"Python.h is not in {includes[-1]}: install the headers of Python (python3-dev)")
    command = [_compiler(), *_flags(), *(f"-I{path}" for path in includes), str(MAIN), "-o", str(target)]
    command += [f"-L{root / 'lib'}", *(f"-l{name}" for name in LIBRARIES), "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise FastPathError(f"{command[0]} did not finish within {SECONDS} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise FastPathError(f"{command[0]} cannot compile it against torch {torch.__version__}: {lines[:1]}")


def _flags() -> tuple[str, ...]:
    return *FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"


def _compiler() -> str:
    names = [one for one in (os.environ.get("CXX"), "g++", "c++", "clang++") if one]
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        raise FastPathError("no C++ compiler: install g++, or set CXX")
    return found


def _is_mine(path: Path) -> bool:
    """Whether no other user can have put it there: it is native code for this process."""
    for one in (path, path.parent):
        found = one.stat()
        if found.st_uid not in (os.getuid(), 0) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return True


def main(kernel: Any = None) -> int:
    """`python -m NAME.fastbuild`."""
    try:
        print(f"{build()}: used by every later process with torch {torch.__version__}")
    except (FastPathError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
