"""Evaluates a candidate's plan.py in the sandbox and checks what comes back: Python in, data out."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from kernelwright.contracts.cuda import CONFINED
from kernelwright.contracts.cuda.plan import Plan
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.target import Target
from kernelwright.errors import CannotDecide
from kernelwright.isolation import start, warden
from kernelwright.isolation.log import Log
from kernelwright.isolation.roles import Role
from kernelwright.tasks.model import Signature

SECONDS = 10.0
MOST_BYTES = 4 << 20
ADDRESS_SPACE = 1 << 30
LINES = 20
_BESIDE = ("kw.py", "evaluate.py", "formulate.py", "symbols.py", "ranges.py")
_PLANS = TypeAdapter(tuple[Plan, ...])


def evaluate_plans(plan: str, signatures: tuple[Signature, ...], target: Target) -> tuple[Plan, ...] | BuildFailure:
    """One plan for each signature, from one confined process."""
    workloads = [[asdict(argument) for argument in signature.arguments] for signature in signatures]
    content = run_beside(plan, "evaluate.py", {"device": asdict(target), "workloads": workloads})
    return content if isinstance(content, BuildFailure) else _checked(content, len(signatures))


def run_beside(plan: str, script: str, request: dict[str, object], seconds: float = SECONDS) -> bytes | BuildFailure:
    """What one of our scripts writes that runs a candidate's plan.py, in a confined process."""
    log = Log()
    product = os.memfd_create("plans", os.MFD_CLOEXEC)
    try:
        with tempfile.TemporaryDirectory(prefix="kernelwright-plan-") as name:
            folder = Path(name)
            texts = {name: (CONFINED / name).read_text(encoding="utf-8") for name in _BESIDE}
            start.make_folder(folder, {"plan.py": plan, "request.json": json.dumps(request), **texts})
            reply = _run(folder, script, seconds, log, product)
        if reply.ending is warden.Ending.timeout:
            return BuildFailure((f"plan.py did not finish within {seconds:g} s",), timed_out=True)
        if (reply.ending, reply.value) != (warden.Ending.exited, 0):
            said = tuple(line for line in log.text().splitlines() if line.strip())[-LINES:]
            return BuildFailure(said or (f"plan.py {reply.describe()} without a message",))
        content = os.pread(product, MOST_BYTES + 1, 0)
    except OSError as error:
        raise CannotDecide(f"cannot evaluate a plan: {error.strerror}: {error.filename}") from error
    finally:
        os.close(product)
        log.close()
    if len(content) > MOST_BYTES:
        return BuildFailure((f"the plan has more than {MOST_BYTES:,} bytes",))
    return content


def _checked(content: bytes, wanted: int) -> tuple[Plan, ...] | BuildFailure:
    try:
        plans = _PLANS.validate_json(content)
    except ValidationError as error:
        lines = dict.fromkeys(_line(entry["loc"], entry["msg"]) for entry in error.errors())
        return BuildFailure(tuple(lines)[:LINES])
    if len(plans) != wanted:
        return BuildFailure((f"plan.py gave {len(plans)} plans for {wanted} workloads",))
    return plans


def _line(where: tuple[int | str, ...], message: str) -> str:
    path = ".".join(str(part) for part in where[1:])
    return f"plan.py: {path or 'plan'}: {message.removeprefix('Value error, ')}"


def _run(folder: Path, script: str, seconds: float, log: Log, product: int) -> warden.Reply:
    source, scratch = start.source_directory(folder), start.scratch_directory(folder)
    output = f"{scratch}/plans.json"
    python = str(Path(sys.executable).resolve())
    return start.run(
        Role.plan_evaluator,
        [python, "-I", "-S", "-B", f"{source}/{script}", f"{source}/request.json", output],
        start.Grant(visible=_interpreter(), folder=folder, scratch_bytes=MOST_BYTES, address_space=ADDRESS_SPACE),
        seconds,
        log,
        (product, output),
    )


def _interpreter() -> tuple[Path, ...]:
    """What Python needs of where it is installed, which may be a folder with much else in it."""
    prefix = Path(sys.base_prefix).resolve()
    return tuple(path for name in ("bin", "lib", "lib64", "include") if (path := prefix / name).is_dir())
