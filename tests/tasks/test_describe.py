"""A description holds all that a person should see of a task, and nothing secret."""

from __future__ import annotations

import dataclasses
import json

from kernelwright.tasks import Chosen, normal
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.describe import ArgumentInfo, describe

from .samples import small_task


def test_arguments_are_described_in_order() -> None:
    assert describe(small_task(constant=("weight",))).arguments == (
        ArgumentInfo("x", "input", ("rows", "cols"), "the workload's", "input family", gradient=True),
        ArgumentInfo("weight", "constant", ("cols",), "the workload's", str(normal(1, 0.2)), gradient=True),
        ArgumentInfo("factor", "scalar", value=2.0),
    )


def test_what_changes_in_place_is_said_to() -> None:
    info = describe(small_task(inout=("x",)))
    assert [argument.role for argument in info.arguments] == ["inout", "input", "scalar"]


def test_the_rest_is_told_as_well() -> None:
    info = describe(small_task(comparators={"out": Chosen("x")}, doc="What it does."))
    assert (info.name, info.doc, info.direction) == ("scaled", "What it does.", "forward")
    assert info.public == ("rows=8 cols=16", "rows=16 cols=8")
    assert info.hidden == (("rows", 4, 40), ("cols", 4, 40))
    assert info.comparators == (("out", "Chosen(source='x', dim=-1, keepdim=False)"),)
    assert info.families[0] == "normal" and info.dtypes == ("float32",) and info.outputs == ("out",)


def test_a_backward_is_described_by_what_it_follows() -> None:
    info = describe(derive_backward(small_task(saved={"kept": lambda x, w, f: x + 1})))
    assert info.arguments[-2] == ArgumentInfo("kept", "input", draw="computed by the forward pass")
    assert info.arguments[-1] == ArgumentInfo("grad_out", "input", ("shape of out",), "that of out", "input family")


def test_a_description_is_plain_data() -> None:
    text = json.dumps(dataclasses.asdict(describe(small_task())))
    assert json.loads(text)["arguments"][2]["value"] == 2.0
