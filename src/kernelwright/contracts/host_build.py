"""Building a candidate: the compiler runs in a sandbox, its product comes back over one descriptor,
and the controller alone writes the cache, named by everything that went into it."""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwright.contracts.artefact import code_hash, system_call_in
from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.model import BuildFailure, BuildPlan
from kernelwright.contracts.registry import host_contract
from kernelwright.devices import lock
from kernelwright.devices.compiler import compiler, compiler_version
from kernelwright.errors import CannotDecide
from kernelwright.isolation import start, warden
from kernelwright.isolation.log import Log, shown_lines
from kernelwright.isolation.roles import Role
from kernelwright.paths import cache_dir, write_whole
from kernelwright.tasks.model import Signature

SECONDS = 90.0
MAX_LIBRARY = 64 << 20
SCRATCH = 512 << 20
ADDRESS_SPACE = 4 << 30
DIAGNOSTIC_LINES = 40
NOT_STARTED = 125  # what the warden's sandbox exits with when it could not be set up; no compiler does


@dataclass(frozen=True)
class Built:
    library: Path
    digest: str  # of all that went into it, by which the cache knows it
    code: str  # the hash of what came out
    seconds: float
    cached: bool
    files: tuple[str, ...]  # the names of what was compiled, which reports on the library name, too


def build(candidate: Candidate, signature: Signature, *, sanitized: bool = False) -> Built | BuildFailure:
    """The library of a candidate for one signature, from the cache if it was built before."""
    return build_as(host_contract(candidate.contract).build_plan(candidate, signature, sanitized=sanitized))


def build_as(plan: BuildPlan) -> Built | BuildFailure:
    """The library that a plan makes, from the cache if it was made before."""
    name = _digest(plan)
    library = cache_dir("builds", name[:2]) / f"{name}.so"
    files = tuple(file for file, _ in plan.files)
    begin = time.perf_counter()
    if library.exists():
        return Built(
            library, name, code_hash([library.read_bytes()]), time.perf_counter() - begin, cached=True, files=files
        )
    with lock.working():
        content = _laid_out(plan)
    if isinstance(content, BuildFailure):
        return content
    try:
        write_whole(library, content)
    except OSError as error:
        raise CannotDecide(f"cannot write the build cache {library.parent}: {error.strerror}") from error
    return Built(library, name, code_hash([content]), time.perf_counter() - begin, cached=False, files=files)


def build_both(
    candidate: Candidate, signature: Signature, *, sanitized: bool
) -> tuple[Built | BuildFailure, Built | BuildFailure | None]:
    """The plain library and, if wanted, the sanitized one, built side by side."""
    with ThreadPoolExecutor(2) as pool:
        second = pool.submit(build, candidate, signature, sanitized=True) if sanitized else None
        return build(candidate, signature), second.result() if second else None


def _digest(plan: BuildPlan) -> str:
    digest = hashlib.sha256(f"{compiler()}\0{compiler_version()}\0{machine()}".encode())
    layouts = (part for layout in plan.layouts for part in ("", *layout))
    for part in (*plan.arguments, *layouts, *(text for pair in plan.files for text in pair)):
        digest.update(len(part).to_bytes(8, "little") + part.encode())
    return digest.hexdigest()


def machine() -> str:
    """-march=native makes a library fit one kind of processor only."""
    from kernelwright.devices.cpu import probe

    return f"{probe().model} {probe().architecture}"


def _laid_out(plan: BuildPlan) -> bytes | BuildFailure:
    """In the first layout without the bytes of a system call, with which a library is not loaded; else in the usual
    one. All layouts together may take as long as one."""
    begin = time.monotonic()
    usual = _compile(plan)
    took = time.monotonic() - begin
    if isinstance(usual, BuildFailure) or not _has_system_call(usual):
        return usual
    for layout in plan.layouts:
        if time.monotonic() - begin + took > SECONDS:
            break
        content = _compile(replace(plan, arguments=(*plan.arguments, *layout)))
        if not isinstance(content, BuildFailure) and not _has_system_call(content):
            return content
    return usual


def _has_system_call(library: bytes) -> bool:
    try:
        return system_call_in(library) is not None
    except struct.error:  # the source made something else of it, which is refused elsewhere
        return False


def _compile(plan: BuildPlan) -> bytes | BuildFailure:
    log = Log(1 << 18)
    product = os.memfd_create("library", os.MFD_CLOEXEC)
    try:
        with tempfile.TemporaryDirectory(prefix="kernelwright-build-") as name:
            folder = Path(name)
            source = start.source_directory(folder)
            start.make_folder(folder, dict(plan.files))
            reply = _run_compiler(folder, plan, log, product)
        if reply.ending is warden.Ending.timeout:
            return BuildFailure((f"the compiler did not finish within {SECONDS:.0f} s",), timed_out=True)
        if (reply.ending, reply.value) == (warden.Ending.exited, NOT_STARTED):
            raise CannotDecide(f"the compiler cannot run confined: {log.text().strip().splitlines()[-1:]}")
        if (reply.ending, reply.value) != (warden.Ending.exited, 0):
            files = tuple(file for file, _ in plan.files)
            return BuildFailure(_diagnostics(log.text().replace(f"{source}/", ""), files, reply))
        size = os.fstat(product).st_size
        if size > MAX_LIBRARY:
            return BuildFailure((f"the library has {size:,} bytes; at most {MAX_LIBRARY:,} are taken",))
        return os.pread(product, size, 0)
    except OSError as error:
        raise CannotDecide(f"cannot build: {error.strerror}: {error.filename or tempfile.gettempdir()}") from error
    finally:
        os.close(product)
        log.close()


def _run_compiler(folder: Path, plan: BuildPlan, log: Log, product: int) -> warden.Reply:
    source, scratch = start.source_directory(folder), start.scratch_directory(folder)
    output = f"{scratch}/library.so"
    arguments = [part.replace("{source}", source).replace("{output}", output) for part in plan.arguments]
    return start.run(
        Role.builder,
        [str(Path(compiler()).resolve()), *arguments],
        start.Grant(folder=folder, scratch_bytes=SCRATCH, address_space=ADDRESS_SPACE),
        SECONDS,
        log,
        (product, output),
    )


def _diagnostics(text: str, files: tuple[str, ...], reply: warden.Reply) -> tuple[str, ...]:
    """The compiler's own lines about the candidate, errors first, with paths of the sandbox taken off."""
    lines = shown_lines(text, files)
    if not lines:
        return (f"the compiler {reply.describe()} without a message",)
    errors = [i for i, line in enumerate(lines) if "error:" in line or "undefined reference" in line]
    start = max(0, errors[0] - 2) if errors else 0
    return tuple(lines[start : start + DIAGNOSTIC_LINES])
