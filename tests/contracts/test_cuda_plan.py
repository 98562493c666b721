"""Plans are data out of hostile code: evaluated in the sandbox, and nothing passes that is not of the closed types."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kernelwright.contracts.cuda.plan import MOST_LAUNCHES, Plan
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans, evaluator_program, evaluators
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.target import HOPPER
from tests.contracts.cuda_samples import PLAN, vectors


def plan_of(**changes: Any) -> Plan:
    launch = {"kernel": "f", "grid": [1, 1, 1], "block": [32, 1, 1], "arguments": []}
    launch |= {name: value for name, value in changes.items() if name not in ("scratch", "workspaces", "definitions")}
    rest = {name: value for name, value in changes.items() if name in ("scratch", "workspaces", "definitions")}
    return Plan.model_validate_json(json.dumps({"launches": [launch], **rest}))


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel": "f; system()"},
        {"kernel": 'f"'},
        {"kernel": "x" * 600},
        {"grid": [0, 1, 1]},
        {"grid": [1, 70000, 1]},
        {"grid": [1, 1]},
        {"grid": [True, 1, 1]},
        {"block": [1024, 2, 1]},
        {"shared": -1},
        {"shared": 1 << 30},
        {"cluster": [17, 1, 1]},
        {"arguments": [{"kind": "pointer", "name": "x", "offset": -8}]},
        {"arguments": [{"kind": "pointer", "name": "../x"}]},
        {"arguments": [{"kind": "integer", "type": "i32", "value": 1 << 31}]},
        {"arguments": [{"kind": "integer", "type": "u8", "value": -1}]},
        {"arguments": [{"kind": "integer", "type": "i128", "value": 1}]},
        {"arguments": [{"kind": "callback", "name": "x"}]},
        {"arguments": [{"kind": "real", "type": "f32", "value": "1.0"}]},
        {"arguments": [{"kind": "struct", "fields": []}]},
        {"scratch": [{"name": "s", "bytes": 0}]},
        {"scratch": [{"name": "s", "bytes": 1 << 40}]},
        {"scratch": [{"name": "s", "bytes": 8 << 30}, {"name": "t", "bytes": 9 << 30}]},
        {"scratch": [{"name": "s", "bytes": 8}, {"name": "s", "bytes": 8}]},
        {"workspaces": [{"name": "w", "bytes": 1 << 30}]},
        {"definitions": [["A B", "1"]]},
        {"definitions": [["A", "1\n#include </etc/passwd>"]]},
        {"dependent": True},
        {"surprise": 1},
    ],
)
def test_what_is_out_of_bounds_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        plan_of(**changes)


def test_too_many_launches_are_refused() -> None:
    launch = {"kernel": "f", "grid": [1, 1, 1], "block": [1, 1, 1], "arguments": []}
    with pytest.raises(ValidationError):
        Plan.model_validate_json(json.dumps({"launches": [launch] * (MOST_LAUNCHES + 1)}))


@given(st.sampled_from(["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]), st.integers(-(1 << 65), 1 << 65))
def test_integers_fit_their_type_or_are_refused(kind: str, value: int) -> None:
    bits, signed = int(kind[1:]), kind[0] == "i"
    fits = -(1 << bits - 1) <= value < 1 << bits - 1 if signed else 0 <= value < 1 << bits
    argument = {"kind": "integer", "type": kind, "value": value}
    if fits:
        assert plan_of(arguments=[argument]).launches[0].arguments
    else:
        with pytest.raises(ValidationError):
            plan_of(arguments=[argument])


def evaluated(plan: str) -> tuple[Plan, ...] | BuildFailure:
    return evaluate_plans(plan, (vectors(100), vectors(7)), HOPPER)


def test_a_plan_is_evaluated_for_every_workload() -> None:
    plans = evaluated(PLAN)
    assert isinstance(plans, tuple)
    numbers = [plan.launches[0].arguments[2] for plan in plans]
    assert [getattr(number, "value", None) for number in numbers] == [100, 7]


def test_a_plan_knows_shapes_the_device_and_its_own_memory() -> None:
    plans = evaluated(
        """
import kw


def plan(x, factor, out):
    kept = kw.scratch("kept", x.numel() * x.itemsize, zero=True)
    work = kw.workspace("work", 64)
    assert factor == 2.0 and x.shape == out.shape and x.strides == (1,) and x.dtype == "float32"
    return [
        kw.launch("f<4>", kw.device.multiprocessors, (8, 4), kept, work.at(8), kw.struct(x, kw.f32(factor))),
        kw.launch("g", 1, 32, x.at(3), cooperative=True, cluster=(2, 1)),
    ]
"""
    )
    assert isinstance(plans, tuple)
    first, second = plans[0].launches
    assert first.grid == (132, 1, 1) and first.block == (8, 4, 1) and second.cluster == (2, 1, 1)
    assert plans[0].scratch[0].bytes == 400 and plans[0].workspaces[0].name == "work"
    assert plans[0].kernels == ("f<4>", "g")


HOSTILE = {
    "reads a file": ("open('/etc/passwd').read()", "FileNotFoundError|PermissionError"),
    "lists the file system": (
        "import os; found = sorted(os.listdir('/')); assert 'home' in found, found",
        "AssertionError|PermissionError",
    ),
    "opens a socket": ("import socket; socket.socket()", "PermissionError"),
    "returns a number": ("return 42", "return kw.plan"),
    "returns its own dictionary": ("return {'launches': []}", "return kw.plan"),
    "leaves a bare number": ("return kw.launch('f', 1, 1, 7)", r"kw.i32\(7\)"),
    "asks for no blocks": ("return kw.launch('f', 0, 1)", "at least 1"),
    "ends itself": ("import os; os._exit(0)", "without a message"),
    "ends itself politely": ("raise SystemExit(0)", "SystemExit"),
    "starts a process": ("import os; os.fork()", "PermissionError"),
    "starts a program": ("import subprocess; subprocess.run(['/bin/true'])", "PermissionError"),
    "starts a thread": ("import threading; threading.Thread(target=print).start()", "can't start new thread"),
    "keeps files in memory": ("import os; os.memfd_create('more')", "PermissionError"),
    "takes all memory": ("x = 'x' * (1 << 40)", "MemoryError"),
    "writes a plan that is not a plan": (
        "import kw as k; k.Plan.to_json = lambda s: {'a': 1}; return k.plan()",
        "plan",
    ),
    "raises": ("raise ValueError('no')", "plan.py:5: in plan"),
}


@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_a_hostile_plan_earns_a_line(what: str) -> None:
    body, message = HOSTILE[what]
    failure = evaluated(f"import kw\n\n\ndef plan(x, factor, out):\n    {body}\n")
    assert isinstance(failure, BuildFailure)
    assert re.search(message, "\n".join(failure.lines)), failure.lines


def test_a_plan_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    import kernelwright.contracts.cuda.toolchain.evaluate as module

    monkeypatch.setattr(module, "SECONDS", 0.5)
    failure = evaluated("def plan(*_):\n    while True:\n        pass\n")
    assert isinstance(failure, BuildFailure) and failure.timed_out


def test_a_plan_without_a_function_is_said_so() -> None:
    failure = evaluated("x = 1\n")
    assert isinstance(failure, BuildFailure) and "no function plan" in failure.lines[-1]
    failure = evaluated("def plan(:\n")
    assert isinstance(failure, BuildFailure) and "SyntaxError" in failure.lines[-1]


def test_a_plan_with_other_parameters_is_told_those_of_the_task() -> None:
    failure = evaluated("def plan(x, out):\n    return 1\n")
    assert isinstance(failure, BuildFailure)
    assert failure.lines[-1].endswith(
        "takes 2 positional arguments but 3 were given: it is called as plan(x, factor, out)"
    )
    failure = evaluated("def plan(x, factor, out):\n    return len(3)\n")
    assert isinstance(failure, BuildFailure) and "called as" not in failure.lines[-1]


def test_a_plan_sees_of_pythons_installation_what_python_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be installed in a home directory, beside whatever else lies there."""
    for name in ("bin", "lib", "private"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    program = evaluator_program.__wrapped__("evaluate.py")  # made anew
    assert program.visible == (tmp_path / "bin", tmp_path / "lib")


def test_a_plan_is_evaluated_by_a_process_that_waited_and_serves_no_other() -> None:
    pool = evaluators(spare=1)
    try:
        pool.refill()
        assert len(pool._waiting) == 1
        plans = evaluate_plans(PLAN, (vectors(100), vectors(7)), HOPPER, pool)
        assert plans == evaluated(PLAN) and not pool._waiting
    finally:
        pool.close()
