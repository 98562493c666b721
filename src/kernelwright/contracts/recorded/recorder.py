"""Runs a recorder in the sandbox and takes what it writes: a stranger's host code in, bytes to be checked out.

Which program records is the contract's business: Python with one of our scripts, or a binary of our own that loads a
library. It gets a folder with its files, no GPU, no network, limits of time and memory, and one file to write.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from kernelwright.contracts.model import BuildFailure
from kernelwright.errors import CannotDecide
from kernelwright.isolation import levels, start, warden
from kernelwright.isolation.log import Log
from kernelwright.isolation.roles import Role
from kernelwright.paths import printable

LINES = 20
LONGEST_LINE = 400
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class RecorderProgram:
    """`command` makes the command line of the folder, as the process sees it, and of the file that it has to write."""

    command: Callable[[str, str], Sequence[str]]
    visible: tuple[str | Path, ...] = ()
    role: Role = Role.recorder
    seconds: float = 30.0
    address_space: int = 0
    scratch_bytes: int = 64 << 20
    most_bytes: int = 16 << 20  # of the answer
    variables: Mapping[str, str] | None = None


def run_recorder(recorder: RecorderProgram, files: Mapping[str, str | bytes], subject: str) -> bytes | BuildFailure:
    """What the recorder wrote. `subject` names the candidate's file in a failure, which quotes its last words."""
    levels.demand(levels.accepted(), start.isolation_of(recorder.role))
    log, product = Log(), os.memfd_create("record", os.MFD_CLOEXEC)
    try:
        with tempfile.TemporaryDirectory(prefix="kernelwright-record-") as name:
            folder = Path(name)
            start.make_folder(folder, {})
            for file, content in files.items():
                path = folder / file
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
                path.chmod(0o755)
            reply = _run(recorder, folder, log, product)
        if reply.ending is warden.Ending.timeout:
            return BuildFailure((f"{subject} did not finish within {recorder.seconds:g} s",), timed_out=True)
        if (reply.ending, reply.value) != (warden.Ending.exited, 0):
            said = [printable(line)[:LONGEST_LINE] for line in log.text().splitlines() if line.strip()]
            return BuildFailure(tuple(said[-LINES:]) or (f"{subject} {reply.describe()} without a message",))
        content = os.pread(product, recorder.most_bytes + 1, 0)
    except OSError as error:
        raise CannotDecide(f"cannot record host code: {error.strerror}: {error.filename}") from error
    finally:
        os.close(product)
        log.close()
    if len(content) > recorder.most_bytes:
        return BuildFailure((f"{subject}: the record has more than {recorder.most_bytes:,} bytes",))
    return content


def read_answer(content: bytes, form: TypeAdapter[_Answer], subject: str) -> _Answer | BuildFailure:
    """The answer as closed types, or what is wrong with it."""
    try:
        return form.validate_json(content)
    except ValidationError as error:
        lines = dict.fromkeys(entry["msg"].removeprefix("Value error, ") for entry in error.errors())
        return BuildFailure(tuple(printable(f"{subject}: {line}")[:LONGEST_LINE] for line in list(lines)[:LINES]))


def _run(recorder: RecorderProgram, folder: Path, log: Log, product: int) -> warden.Reply:
    source, scratch = start.source_directory(folder), start.scratch_directory(folder)
    output = f"{scratch}/record.json"
    grant = start.Grant(
        visible=recorder.visible,
        folder=folder,
        scratch_bytes=recorder.scratch_bytes,
        address_space=recorder.address_space,
        variables={"TMPDIR": scratch, **(recorder.variables or {})},
    )
    return start.run(recorder.role, recorder.command(source, output), grant, recorder.seconds, log, (product, output))
