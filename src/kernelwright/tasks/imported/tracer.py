"""Traces a stranger's task in the sandbox and keeps what came back: a stranger's Python in, checked data out.

torch is not needed here. Which operators the graph names is checked where it becomes a reference (`rebuild`).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import ValidationError

from kernelwright.errors import CannotDecide
from kernelwright.isolation import levels, start, warden
from kernelwright.isolation.log import Log
from kernelwright.isolation.roles import Role
from kernelwright.paths import cache_dir, printable, write_whole
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.imported.forms import Bundle
from kernelwright.tasks.imported.traced import MOST_BYTES, TracedProblem

SECONDS = 120.0
MEMORY = 4 << 30  # bytes of its own that a tracer may have; it has no use for what it would take to hold the inputs
ADDRESS_SPACE = 64 << 30  # with the libraries of a PyTorch for GPUs, which are mapped and hardly read
PACKAGE = Path(__file__).resolve().parents[2]
# The folder around our package may hold anything, and is not shown: so that it cannot be searched for the package.
BOOT = """
import gc, importlib.util, resource, sys
gc.disable()  # a sixth of the time that importing torch takes
resource.setrlimit(resource.RLIMIT_DATA, ({memory}, {memory}))
sys.path[:0] = {paths!r}
spec = importlib.util.spec_from_file_location("kernelwright", {package!r} + "/__init__.py")
sys.modules["kernelwright"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["kernelwright"])
from pathlib import Path
from kernelwright.tasks.imported.confined import tracing
gc.freeze()
gc.enable()
tracing.main(Path(sys.argv[1]), Path(sys.argv[2]))
"""
LONGEST = 400
KILLED, NO_OUTPUT = 128, 124  # exit codes of the warden: a signal's number above, and no file to copy


class CannotTrace(TaskError):  # noqa: N818 - it says what happened
    """It is in the form of a problem, and what it computes cannot be written down."""


def traced(bundle: Bundle, level: levels.Level | None = None) -> TracedProblem:
    """What a problem computes. It is traced once for each content of its files and version of PyTorch and of ours.

    `level` is the lowest isolation level that is accepted.
    """
    kept = cache_dir("imported") / f"{_key(bundle)}.json"
    try:
        return TracedProblem.model_validate_json(kept.read_bytes())
    except (OSError, ValidationError):  # not there yet, or not whole
        pass
    levels.demand(levels.accepted() if level is None else level, start.isolation_of(Role.tracer))
    content = _run(bundle)
    problem = _checked(content)
    write_whole(kept, content)
    return problem


def _run(bundle: Bundle) -> bytes:
    log, product = Log(), os.memfd_create("traced", os.MFD_CLOEXEC)
    try:
        with tempfile.TemporaryDirectory(prefix="kernelwright-trace-") as name:
            folder = Path(name)
            start.make_folder(folder, {})
            said = {"form": bundle.form, "main": bundle.main_name, "setting": bundle.setting}
            for file, content in (*bundle.content, ("bundle.json", json.dumps(said).encode())):
                path = folder / file
                path.write_bytes(content)
                path.chmod(0o644)
            reply = _start(folder, log, product)
        if reply.ending is warden.Ending.timeout:
            raise CannotTrace(f"it did not finish within {SECONDS:g} s")
        content = os.pread(product, MOST_BYTES + 1, 0)
        if not content:
            raise CannotTrace(f"it {_ended(reply, log)}")
    except OSError as error:
        raise CannotDecide(f"cannot trace a problem: {error.strerror}: {error.filename}") from error
    finally:
        os.close(product)
        log.close()
    return content


def _ended(reply: warden.Reply, log: Log) -> str:
    ended = reply.describe()
    if reply.ending is warden.Ending.exited and reply.value > KILLED:
        ended = f"was killed by {warden.signal_name(reply.value - KILLED)}"
    elif reply.ending is warden.Ending.exited and reply.value in (0, NO_OUTPUT):
        ended = "ended without a result"
    said = [line.strip() for line in log.text().splitlines() if line.strip()]
    return f"{ended}: {printable(said[-1])[:LONGEST]}" if said else ended


def _start(folder: Path, log: Log, product: int) -> warden.Reply:
    source, scratch = start.source_directory(folder), start.scratch_directory(folder)
    packages = start.package_folders()
    boot = BOOT.format(memory=MEMORY, paths=list(packages), package=str(PACKAGE))
    output = f"{scratch}/traced.json"
    grant = start.Grant(
        visible=(*start.interpreter_folders(), *packages, PACKAGE),
        folder=folder,
        scratch_bytes=4 * MOST_BYTES,
        address_space=ADDRESS_SPACE,
        variables={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": scratch},
    )
    command = [str(Path(sys.executable).resolve()), "-I", "-S", "-B", "-c", boot, str(source), output]
    return start.run(Role.tracer, command, grant, SECONDS, log, (product, output))


def _checked(content: bytes) -> TracedProblem:
    if len(content) > MOST_BYTES:
        raise CannotTrace(f"what came back has more than {MOST_BYTES >> 20} MiB")
    try:
        said = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CannotTrace("what came back is not JSON") from error
    if isinstance(said, dict) and set(said) == {"error"} and isinstance(said["error"], str):
        raise CannotTrace(printable(" ".join(said["error"].split()))[:LONGEST])
    try:
        return TracedProblem.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:6])
        message = first["msg"].removeprefix("Value error, ")
        raise CannotTrace(printable(f"what came back is not a graph: {where}: {message}")[:LONGEST]) from error


@cache
def _ours() -> str:
    """Of the code that traces: another version may write another graph."""
    whole = hashlib.sha256()
    folder = Path(__file__).resolve().parent
    others = (folder.parent / name for name in ("exporting.py", "dims.py", "source_lines.py", "line_recorder.py"))
    for path in sorted((*folder.rglob("*.py"), *others)):
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "none"
    return f"{whole.hexdigest()} {torch} {platform.python_version()}"


def _key(bundle: Bundle) -> str:
    return hashlib.sha256(_ours().encode() + b"\0" + bundle.digest()).hexdigest()[:40]
