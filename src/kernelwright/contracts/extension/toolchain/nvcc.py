"""Builds an extension with nvcc in the builder's sandbox, against the light headers, and takes the cubin out."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from weakref import WeakValueDictionary

from kernelwright.contracts.artefact import sections
from kernelwright.contracts.cuda.toolkit import include_directories
from kernelwright.contracts.extension.source import with_own_headers
from kernelwright.contracts.extension.values import INCLUDE, advice_on_torch, light_headers
from kernelwright.contracts.model import BuildFailure, Part
from kernelwright.contracts.target import Target
from kernelwright.devices.compiler import compiler
from kernelwright.errors import CannotDecide
from kernelwright.isolation import start, warden
from kernelwright.isolation.log import Log, shown_lines
from kernelwright.isolation.roles import Role
from kernelwright.paths import cache_dir, write_whole

SECONDS = 120.0
SCRATCH = 512 << 20
MOST_LIBRARY = 64 << 20
LINES = 40
SOURCE_NAME = "kernel.cu"
_INSTALL = "install the CUDA toolkit, or name its folder in CUDA_HOME"
# Symbols are hidden so that no table of one library is another's; device code is kept plain so that it can be read.
_FLAGS = (
    *("-std=c++20", "-shared", "-cudart", "none", "--no-compress", "-diag-suppress", "20012,177,550"),
    *(
        "-Xcompiler",
        "-O0,-fPIC,-fvisibility=hidden,-fno-gnu-unique,-Wno-init-list-lifetime",
        "--expt-relaxed-constexpr",
    ),
    *("--extended-lambda", "-lineinfo"),  # which costs nothing at run time, and lets the sanitizers name lines
)


@dataclass(frozen=True)
class BuiltLibrary:
    library: bytes
    cubin: bytes
    digest: str
    cached: bool


@cache
def nvcc() -> Path | None:
    """By CUDA_HOME, CUDA_PATH, or where the toolkit usually is."""
    folders = [Path(value) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if (value := os.environ.get(name))]
    folders += [Path("/usr/local/cuda/bin"), *sorted(Path("/usr/local").glob("cuda-*/bin"), reverse=True)]
    found = [folder / "nvcc" for folder in folders if (folder / "nvcc").is_file()]
    on_path = shutil.which("nvcc")
    return found[0].resolve() if found else Path(on_path).resolve() if on_path else None


@cache
def version() -> str:
    path = nvcc()
    if path is None:
        return ""
    said = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release (\d+\.\d+)", said)
    return found[1] if found else "unknown"


def parts() -> tuple[Part, ...]:
    path = nvcc()
    found = f"{version()} ({path})" if path else "missing: extensions can be checked on the emulator, not built"
    return (Part("nvcc", found, missing=path is None, fix="" if path else _INSTALL),)


_under_way: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()


def build_library(source: str, target: Target) -> BuiltLibrary | BuildFailure:
    """The library with the host code, for the recorder alone, and the cubin, for the launcher. It is the same for all
    sizes: of builds side by side one compiles, and the others wait."""
    if nvcc() is None:
        return BuildFailure((f"there is no nvcc: {_INSTALL}",))
    files = {SOURCE_NAME: with_own_headers(source), **dict(light_headers())}
    arguments = _arguments(target)
    told = "\0".join((version(), *arguments, *(text for pair in sorted(files.items()) for text in pair)))
    digest = hashlib.sha256(told.encode()).hexdigest()
    with _under_way.setdefault(digest, threading.Lock()):
        return _library(files, arguments, digest)


def _library(files: dict[str, str], arguments: tuple[str, ...], digest: str) -> BuiltLibrary | BuildFailure:
    path = cache_dir("extensions", digest[:2]) / f"{digest}.so"
    cached = path.exists()
    content: bytes | BuildFailure = path.read_bytes() if cached else _compile(files, arguments)
    if isinstance(content, BuildFailure):
        return content
    if not cached:
        try:
            write_whole(path, content)
        except OSError as error:
            raise CannotDecide(f"cannot write the build cache {path.parent}: {error.strerror}") from error
    cubins = cubins_of(content)
    if len(cubins) != 1:
        return BuildFailure((f"the library has {len(cubins)} modules of device code; a source with kernels has one",))
    return BuiltLibrary(content, cubins[0], digest, cached)


def _arguments(target: Target) -> tuple[str, ...]:
    virtual = target.architecture.replace("sm_", "compute_")
    headers = [
        part
        for path in include_directories()
        if path != INCLUDE and "cutlass" in str(path)
        for part in ("-I", str(path))
    ]
    return (*_FLAGS, "-gencode", f"arch={virtual},code={target.architecture}", *headers)


def _compile(files: dict[str, str], arguments: tuple[str, ...]) -> bytes | BuildFailure:
    log, product = Log(1 << 18), os.memfd_create("extension", os.MFD_CLOEXEC)
    try:
        with tempfile.TemporaryDirectory(prefix="kernelwright-nvcc-") as name:
            folder = Path(name)
            start.make_folder(folder, files)
            source, output = start.source_directory(folder), f"{start.scratch_directory(folder)}/library.so"
            command = [
                str(nvcc()),
                *arguments,
                "-ccbin",
                compiler(),
                "-I",
                source,
                f"{source}/{SOURCE_NAME}",
                "-o",
                output,
            ]
            grant = start.Grant(folder=folder, scratch_bytes=SCRATCH, visible=_toolkit())
            reply = start.run(Role.builder, command, grant, SECONDS, log, (product, output))
        if reply.ending is warden.Ending.timeout:
            return BuildFailure((f"nvcc did not finish within {SECONDS:.0f} s",), timed_out=True)
        if (reply.ending, reply.value) != (warden.Ending.exited, 0):
            return _failure(log.text().replace(f"{source}/", ""), reply, tuple(files))
        size = os.fstat(product).st_size
        if size > MOST_LIBRARY:
            return BuildFailure((f"the library has {size:,} bytes; at most {MOST_LIBRARY:,} are taken",))
        return os.pread(product, size, 0)
    except OSError as error:
        raise CannotDecide(f"cannot build: {error.strerror}: {error.filename or tempfile.gettempdir()}") from error
    finally:
        os.close(product)
        log.close()


def _toolkit() -> tuple[Path, ...]:
    path = nvcc()
    assert path is not None
    return () if str(path).startswith("/usr/") else (path.parent.parent,)


def _failure(text: str, reply: warden.Reply, files: tuple[str, ...]) -> BuildFailure:
    lines = [line for line in shown_lines(text, files) if line.strip()]
    if not lines:
        return BuildFailure((f"nvcc {reply.describe()} without a message",))
    first = next((at for at, line in enumerate(lines) if "error" in line), 0)
    return BuildFailure((*advice_on_torch(lines), *lines[first : first + LINES]))


def cubins_of(library: bytes) -> tuple[bytes, ...]:
    """The device code in a library, read off its section of fat binaries. It comes out of the builder: what cannot be
    read is not there."""
    found: list[bytes] = []
    try:
        content = next((part for name, part in sections(library) if name == ".nv_fatbin"), b"")
        at = 0
        while at + 16 <= len(content):
            magic, _, head, size = struct.unpack_from("<IHHQ", content, at)
            if magic != 0xBA55ED50:
                at += 8
                continue
            found += _entries(content[at + head : at + head + size])
            at += head + size
    except (struct.error, IndexError, ValueError):
        return ()
    return tuple(found)


def _entries(content: bytes) -> list[bytes]:
    found, at = [], 0
    while at + 64 <= len(content):
        kind, _, head, size = struct.unpack_from("<HHIQ", content, at)
        if head == 0:
            break
        body = content[at + head : at + head + size]
        if kind == 2 and body.startswith(b"\x7fELF"):
            found.append(body)
        at += head + size
    return found
