"""The controller's hand on confined compilers: starts them ahead of need, asks one, and checks what it says."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import kernelwright
from kernelwright.contracts.cuda.toolkit import SLOW_HEADERS, has_toolkit, include_directories
from kernelwright.contracts.model import BuildFailure
from kernelwright.errors import CannotDecide
from kernelwright.isolation import start
from kernelwright.isolation.channel import ChannelClosed, Message, pair
from kernelwright.isolation.log import Log
from kernelwright.isolation.roles import Role

SECONDS = 90.0
LIFE_SECONDS = 3600.0
SCRATCH = 512 << 20
ADDRESS_SPACE = 16 << 30
MOST_CUBIN = 64 << 20
LINES = 40
_MANGLED = re.compile(r"^[A-Za-z_$][A-Za-z0-9_$.]{0,4095}$")
_POINTLESS = re.compile(r"precompiled header|^Remark: The warnings can be suppressed|^ptxas info|^\s*$|^ptxas\s+\.")


@dataclass(frozen=True)
class CompileRequest:
    """Everything that a cubin depends on, besides the compiler."""

    source: str
    kernels: tuple[str, ...]
    definitions: tuple[tuple[str, str], ...]
    options: tuple[str, ...]


@dataclass(frozen=True)
class CompileResult:
    cubin: bytes
    names: dict[str, str]
    log: str


def fixed_options(architecture: str) -> list[str]:
    """The same for every candidate. `-lineinfo` costs nothing at run time and lets the sanitizers name lines."""
    return [
        f"--gpu-architecture={architecture}",
        "-lineinfo",
        "--ptxas-options=-v",
        "--relocatable-device-code=false",
        "--device-as-default-execution-space",  # there is no host code here, and cuda.h declares some
        *(f"--include-path={path}" for path in include_directories()),
    ]


class Builder:
    """One confined compiler, for one candidate. `headers` has it precompile the slow headers while it waits."""

    def __init__(self, architecture: str, *, headers: bool) -> None:
        self.log = Log(1 << 18)
        self._folder = Path(tempfile.mkdtemp(prefix="kernelwright-cuda-"))
        start.make_folder(self._folder, {})
        self._channel, theirs = pair()
        package = Path(kernelwright.__file__).resolve().parent
        with theirs:
            command = [
                *(sys.executable, "-I", "-B", str(package / "contracts" / "cuda" / "confined" / "compiler.py")),
                *(start.CHANNEL, str(package.parent)),
            ]
            self._process = start.serving(
                Role.builder, command, self._grant(package), theirs.fileno(), self.log, seconds=LIFE_SECONDS
            )
        self._ready = False
        self._channel.send(
            {
                "options": fixed_options(architecture),
                "headers": list(SLOW_HEADERS) if headers and has_toolkit() else [],
                "scratch": start.scratch_directory(self._folder),
            }
        )

    def _grant(self, package: Path) -> start.Grant:
        visible = {package.parent, Path(sys.prefix), Path(sys.base_prefix), *map(Path, include_directories())}
        return start.Grant(
            visible=tuple(sorted(visible)),
            folder=self._folder,
            scratch_bytes=SCRATCH,
            address_space=ADDRESS_SPACE,
        )

    @property
    def ended(self) -> bool:
        """Whether it is gone: one that waits has a time to live, too."""
        return self._process.poll() is not None

    @property
    def ready(self) -> bool:
        """Whether it has warmed up: asked now, it would answer without delay."""
        return self._ready or bool(select.select([self._channel.fd], [], [], 0)[0])

    def compile(self, request: CompileRequest) -> CompileResult | BuildFailure:
        product = os.memfd_create("cubin", os.MFD_CLOEXEC)
        try:
            if not self._ready:
                self._receive()
                self._ready = True
            self._channel.send(
                {
                    "source": request.source,
                    "kernels": list(request.kernels),
                    "definitions": [list(entry) for entry in request.definitions],
                    "options": list(request.options),
                },
                [product],
            )
            answer = self._receive()
            size = os.fstat(product).st_size
            if size > MOST_CUBIN:
                return BuildFailure((f"the module has {size:,} bytes; at most {MOST_CUBIN:,} are taken",))
            return _checked(answer, request, os.pread(product, size, 0))
        except _Late:
            return BuildFailure((f"the compiler did not finish within {SECONDS:.0f} s",), timed_out=True)
        except ChannelClosed:
            said = [line for line in self.log.text().splitlines() if line.strip()]
            if not self._ready:
                raise CannotDecide(f"the CUDA compiler did not start: {said[-1] if said else 'no message'}") from None
            return BuildFailure(("the compiler ended without an answer", *said[-3:]))
        finally:
            os.close(product)

    def _receive(self) -> Message:
        if not select.select([self._channel.fd], [], [], SECONDS)[0]:
            raise _Late
        return self._channel.receive()[0]

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()  # how the warden learns that it is over
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._channel.close()
        self.log.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Late(Exception):  # noqa: N818 - it names an event
    pass


def _checked(answer: Message, request: CompileRequest, cubin: bytes) -> CompileResult | BuildFailure:
    """The process that answers has read hostile text; believe nothing that does not look as it must."""
    if "failure" in answer:
        return BuildFailure(tidy(str(answer["failure"])) or ("the compiler gave no reason",))
    names = answer.get("names")
    well_formed = (
        isinstance(names, dict)
        and set(names) == set(request.kernels)
        and all(isinstance(name, str) and _MANGLED.match(name) for name in names.values())
    )
    if not well_formed or cubin[:4] != b"\x7fELF":
        return BuildFailure(("the compiler gave an answer that makes no sense",))
    assert isinstance(names, dict)
    return CompileResult(cubin, names, str(answer.get("log", "")))


def tidy(log: str) -> tuple[str, ...]:
    """The compiler's lines about the candidate, from the first error on."""
    lines = [line.rstrip() for line in log.splitlines() if not _POINTLESS.search(line)]
    first = next((at for at, line in enumerate(lines) if "error" in line), 0)
    return tuple(lines[first : first + LINES])


class BuilderPool:
    """Keeps `spare` compilers warm, and one more that has read the slow headers. A builder that has met a candidate
    never comes back."""

    def __init__(self, architecture: str, spare: int = 0) -> None:
        self.architecture = architecture
        self._spare = {False: spare, True: min(spare, 1) if has_toolkit() else 0}  # by whether headers were read
        self._waiting: dict[bool, deque[Builder]] = {headers: deque() for headers in self._spare}
        self._lock = threading.Lock()
        self._ending: list[threading.Thread] = []
        self.refill()

    @property
    def warm(self) -> int:
        with self._lock:
            return sum(builder.ready for builder in self._waiting[False])

    def refill(self) -> None:
        with self._lock:
            for headers, waiting in self._waiting.items():
                while len(waiting) < self._spare[headers]:
                    waiting.append(Builder(self.architecture, headers=headers))

    def take(self, source: str) -> Builder:
        """The one that has waited longest; for a source with slow headers the one that has read them, unless it is
        still at it."""
        slow = any(header in source for header in SLOW_HEADERS)
        with_headers = self._taken(headers=True) if slow else None
        return with_headers or self._taken(headers=False) or Builder(self.architecture, headers=False)

    def _taken(self, *, headers: bool) -> Builder | None:
        waiting = self._waiting[headers]
        with self._lock:
            while waiting and waiting[0].ended:
                self._end(waiting.popleft())
            return waiting.popleft() if waiting and (waiting[0].ready or not headers) else None

    def retire(self, builder: Builder) -> None:
        """Ends a builder behind the caller's back: nobody has to wait for it."""
        with self._lock:
            self._end(builder)

    def _end(self, builder: Builder) -> None:
        thread = threading.Thread(target=builder.close)
        thread.start()
        self._ending = [*(t for t in self._ending if t.is_alive()), thread]

    def close(self) -> None:
        with self._lock:
            for waiting in self._waiting.values():
                for builder in waiting:
                    builder.close()
                waiting.clear()
        for thread in self._ending:
            thread.join()
