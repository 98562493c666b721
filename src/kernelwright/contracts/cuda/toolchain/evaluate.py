"""Evaluates a candidate's plan.py in the sandbox and checks what comes back: Python in, data out."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from kernelwright.contracts.cuda import CONFINED
from kernelwright.contracts.cuda.plan import Plan
from kernelwright.contracts.cuda.source import PLAN_NAME
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.recorded.recorder import GO, RecorderPool, RecorderProgram
from kernelwright.contracts.target import Target
from kernelwright.isolation.roles import Role
from kernelwright.isolation.start import interpreter_folders
from kernelwright.tasks.model import Signature

SECONDS = 10.0
MOST_BYTES = 4 << 20
ADDRESS_SPACE = 1 << 30
LINES = 20
_BESIDE = ("kw.py", "evaluate.py", "formulate.py", "symbols.py", "ranges.py")
_PLANS = TypeAdapter(tuple[Plan, ...])


@cache
def evaluator_program(script: str) -> RecorderProgram:
    """One of our scripts in a confined process: it waits for a candidate's plan.py, with all imported that it needs."""
    python = str(Path(sys.executable).resolve())
    return RecorderProgram(
        lambda folder, output: [
            *(python, "-I", "-S", "-B", f"{folder}/{script}"),
            *(f"{folder}/request.json", output, f"{folder}/{GO}"),
        ],
        visible=interpreter_folders(),
        role=Role.plan_evaluator,
        waits=True,
        address_space=ADDRESS_SPACE,
        scratch_bytes=MOST_BYTES,
        most_bytes=MOST_BYTES,
        demands=False,  # every entrance has, for this role
        beside={name: (CONFINED / name).read_text(encoding="utf-8") for name in _BESIDE},
    )


def evaluators(spare: int = 0, script: str = "evaluate.py") -> RecorderPool:
    """Keeps `spare` processes waiting, each for the plan of one candidate."""
    return RecorderPool(lambda: evaluator_program(script), spare)


_NONE_WAITING = evaluators()


def evaluate_plans(
    plan: str, signatures: tuple[Signature, ...], target: Target, pool: RecorderPool = _NONE_WAITING
) -> tuple[Plan, ...] | BuildFailure:
    """One plan for each signature, from one confined process."""
    workloads = [[asdict(argument) for argument in signature.arguments] for signature in signatures]
    content = _written(plan, {"device": asdict(target), "workloads": workloads}, SECONDS, pool)
    return content if isinstance(content, BuildFailure) else _checked(content, len(signatures))


def run_beside(plan: str, script: str, request: dict[str, object], seconds: float = SECONDS) -> bytes | BuildFailure:
    """What one of our scripts writes that runs a candidate's plan.py, in a confined process."""
    return _written(plan, request, seconds, evaluators(script=script))


def _written(plan: str, request: dict[str, object], seconds: float, pool: RecorderPool) -> bytes | BuildFailure:
    return pool.record({PLAN_NAME: plan, "request.json": json.dumps(request)}, PLAN_NAME, seconds)


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
