"""What people ask for who do not know the templates is covered, right, and accepted by the judge."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelwright.contracts import Candidate
from kernelwright.judge.controller import Judge
from kernelwright.judge.verdict import Outcome
from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import make
from kernelwright.tasks.capture import task_text
from kernelwright.tasks.loading import load_task
from kernelwright.tasks.model import Task
from tests.proposers.templates.checking import errors
from tests.proposers.templates.strangers import ASKED, KEPT_BACK

QUICK = ("masked_softmax", "rms_norm_bf16", "put_rows")
EVERY = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in (*ASKED, *KEPT_BACK)]


def captured(name: str, folder: Path) -> Task:
    torch.manual_seed(0)
    function, example = (ASKED | KEPT_BACK)[name]()
    file = folder / f"{name}.py"
    file.write_text(task_text(function, example))
    return load_task(file)


def proposed(task: Task) -> Candidate:
    return make(task, "cpp").propose(Request(Operator.fresh, 1, 0))[0].candidate


@pytest.mark.parametrize("name", EVERY)
def test_it_is_covered_and_right(name: str, tmp_path: Path) -> None:
    task = captured(name, tmp_path)
    assert not errors(task, proposed(task).source, dict(task.public[0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_the_judge_accepts_it(name: str, tmp_path: Path, judge: Judge) -> None:
    task = captured(name, tmp_path)
    verdict = judge.judge(str(tmp_path / f"{name}.py"), proposed(task))
    assert verdict.verdict is Outcome.accepted, verdict.reason


@pytest.mark.parametrize(("name", "pattern"), [("rms_norm_bf16", "row_reduction"), ("bf16_gate", "pointwise")])
def test_16_bit_floats_take_the_fast_patterns(name: str, pattern: str, tmp_path: Path) -> None:
    assert make(captured(name, tmp_path), "cuda").pattern == pattern
