"""What a prompt can be made from: by type nothing hidden, and by content nothing hidden either."""

from __future__ import annotations

import dataclasses
import enum
import re
import time
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from kernelwright.contracts import Candidate
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.verdict import (
    AuthorVerdict,
    LaunchProfile,
    MismatchEvidence,
    Outcome,
    Profile,
    Reason,
    Stage,
    Verdict,
    WorkloadResult,
)
from kernelwright.proposers.llm.prompts import page, render
from kernelwright.proposers.llm.view import VERIFIERS, PromptView, ShownKernel
from kernelwright.proposers.llm.view import PromptStage as Asked
from kernelwright.proposers.model import Proposal, Request
from kernelwright.search.core.policies import policy_named
from kernelwright.search.core.state import State
from kernelwright.search.driver import Driver
from kernelwright.search.pool import JudgePool
from kernelwright.search.run import create, take_up
from kernelwright.tasks.model import Task, Workload
from tests.proposers.llm import samples
from tests.search import toy

PLAIN = (str, int, float, bool, type(None))
SECRET = 777_131  # a size that only the judge knows
SECRET_MARKS = ("777131", "777_131", "777,131", "bc5bb", "secret workload", "31.4159")


def _types(of: object, seen: set[object]) -> set[object]:
    """Every type that a value of this type can hold, however deep."""
    if of in seen:
        return seen
    seen.add(of)
    arguments = typing.get_args(of)
    fields: list[object] = []
    if isinstance(of, type) and issubclass(of, BaseModel):
        fields = [one.annotation for one in of.model_fields.values()]
    elif isinstance(of, type) and dataclasses.is_dataclass(of):
        fields = list(typing.get_type_hints(of).values())
    for one in (*arguments, *fields):
        _types(one, seen)
    return seen


def test_no_type_that_could_carry_something_hidden_can_be_reached() -> None:
    found = _types(PromptView, set())
    leaves = {one for one in found if isinstance(one, type) and not typing.get_args(one)}
    for one in leaves - set(PLAIN) - {Ellipsis}:
        closed = issubclass(one, BaseModel | enum.Enum) or dataclasses.is_dataclass(one) or one in (tuple, dict)
        assert closed, f"{one} can hold anything"
    forbidden = {Verdict, AuthorVerdict, WorkloadResult, Workload, Task, Settings, bytes, object, typing.Any, dict}
    assert not forbidden & found
    names = {name for one in leaves if issubclass(one, BaseModel) for name in one.model_fields}
    assert not {name for name in names if "hidden" in name} - {"failed_on_hidden"}


def test_a_view_takes_nothing_that_it_has_no_field_for() -> None:
    ground = samples.ground()
    with pytest.raises(ValidationError):
        PromptView(
            stage=Asked.evolve,
            contract="cpp",
            task=ground.task,
            device=ground.device,
            secrets="x",  # type: ignore[call-arg]
        )
    with pytest.raises(ValidationError):
        ShownKernel(name="a", source="b", workloads=())  # type: ignore[call-arg]


@dataclass
class SecretiveJudge(toy.ToyJudge):
    """Its hidden workloads have a size, a label, a time and an error by which anybody would recognise them."""

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        verdict = super().judge(task, candidate, settings, progress, deadline)
        workloads = tuple(
            one.model_copy(
                update={
                    "label": f"secret workload n={SECRET}",
                    "sizes": {"n": SECRET},
                    "seconds": 31.4159,
                    "profile": Profile(launches=(LaunchProfile(kernel="secret workload", seconds=31.4159),)),
                }
            )
            if one.hidden
            else one
            for one in verdict.workloads
        )
        if settings.public_only or sum(toy.genes_of(candidate)) % 3:
            return verdict.model_copy(update={"workloads": workloads})
        evidence = MismatchEvidence(
            workload=f"secret workload n={SECRET}",
            family="normal",
            trial=1,
            result="out",
            index=(SECRET,),
            expected="1",
            got="2",
            error=31.4159,
            tolerance=1e-6,
            wrong=1,
            unwritten=0,
            total=SECRET,
        )
        return verdict.model_copy(
            update={
                "workloads": workloads,
                "verdict": Outcome.rejected,
                "stage": Stage.compare,
                "reason": Reason.imprecise,
                "evidence": evidence,
                "failed_on_hidden": True,
            }
        )


@dataclass
class Watched:
    """The toy's proposer, and beside it every prompt that a model would have been sent."""

    name: str = "toy"
    prompts: list[str] = field(default_factory=list)

    def propose(self, request: Request) -> Sequence[Proposal]:
        ground = samples.ground()
        self.prompts.append(page(render(ground.view(request))))
        for parent in (*request.parents, *request.inspirations):
            for stage in (Asked.diagnose_error, Asked.diagnose_bottleneck, *VERIFIERS):
                self.prompts.append(page(render(ground.about(stage, ground.shown(parent)))))
        return toy.ToyProposer().propose(request)


def _searched(root: Path) -> tuple[State, Watched]:
    folder = create(root, toy.started("islands", repairs=2))
    run = take_up(folder, "70evals", time.time())
    watched = Watched()
    state = Driver(run, watched, JudgePool([SecretiveJudge()]), policy_named("islands")).go()
    run.close()
    return state, watched


def test_no_prompt_of_a_whole_search_says_anything_of_hidden_workloads(tmp_path: Path) -> None:
    state, watched = _searched(tmp_path)
    failed = [entry for entry in state.entries.values() if entry.verdict and entry.verdict.hidden.failed]
    assert failed and len(watched.prompts) > 50
    assert any("on a hidden workload; on the public workloads nothing was found" in text for text in watched.prompts)
    for text in watched.prompts:
        for mark in SECRET_MARKS:
            assert mark not in text


def test_a_score_in_which_hidden_workloads_have_a_part_is_not_shown() -> None:
    ground = samples.ground()
    told = dataclasses.replace(samples.parent(factor=2.0), score=31.4159)
    assert "31.4" not in page(render(ground.about(Asked.diagnose_bottleneck, ground.shown(told))))
    assert re.search(r"2\.00 times as fast", page(render(ground.about(Asked.diagnose_bottleneck, ground.shown(told)))))
