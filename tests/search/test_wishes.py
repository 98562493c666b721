"""What is wanted of a search becomes the first event of its run, and what makes no sense is said in a line."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.devices.names import Device
from kernelwright.errors import KernelwrightError
from kernelwright.llm.ensemble import open_ensemble
from kernelwright.search import proposing
from kernelwright.search.budget import Budget, parse
from kernelwright.search.proposing import Given
from kernelwright.search.state import fold
from kernelwright.search.subject import Subject, subject
from kernelwright.search.wishes import ModelWishes, Wishes, started

WISHES = Wishes(task="rmsnorm", threads=2, seed=7, plateau=9, wait=5.0, policy="greedy")
MODELS = ModelWishes(models=("http://127.0.0.1:9/v1#one",), generation=6, measure=3)


@pytest.fixture(scope="module")
def rmsnorm() -> Subject:
    return subject("rmsnorm", "cpu")


def test_a_run_keeps_what_was_wished_and_how_its_proposer_is_gone_about_with(rmsnorm: Subject) -> None:
    run = started(WISHES, rmsnorm, {"a": 1.0})
    kept = (run.task, run.task_name, run.threads, run.seed, run.plateau, run.wait, run.ahead, run.policy)
    assert kept == ("rmsnorm", "rmsnorm", 2, 7, 9, 5.0, 1, "greedy")
    assert run.task_digest == rmsnorm.digest and run.bounds == {"a": 1.0}
    assert run.lockstep and run.repairs == 0 and run.ensemble is None and run.generation == run.measure == 0
    asked = started(replace(WISHES, proposer="files", ahead=3), rmsnorm, {}, "9evals,5usd")
    assert not asked.lockstep and asked.repairs == 3 and asked.ahead == 3
    assert fold([asked]).budget == parse("9evals,5usd") and fold([run]).budget == Budget()


@pytest.mark.parametrize("proposer", ["templates", "llm"])
def test_a_run_that_can_be_repeated_has_one_request_open_at_a_time(rmsnorm: Subject, proposer: str) -> None:
    with pytest.raises(KernelwrightError, match=f"the proposer {proposer} .* --ahead is for --proposer files"):
        started(replace(WISHES, proposer=proposer, ahead=2), rmsnorm, {})


def test_a_run_compares_with_what_is_usual_on_its_device_unless_others_are_named(rmsnorm: Subject) -> None:
    assert started(WISHES, rmsnorm, {}).baselines == ("eager", "compile")
    gpu = replace(WISHES, contract="cuda", device=Device("cuda"), baselines=("compile-best",))
    assert started(gpu, rmsnorm, {}).baselines == ("compile-best",)


def test_a_run_with_models_keeps_who_they_are_and_has_finalists_reviewed(rmsnorm: Subject, tmp_path: Path) -> None:
    run = started(replace(WISHES, proposer="llm", asked=MODELS), rmsnorm, {})
    assert run.ensemble is not None and (run.generation, run.measure) == (6, 3)
    with open_ensemble(run.ensemble, limit_usd=None, record=None, spent=0.0) as models:
        made = proposing.make(Given(run, rmsnorm.task, tmp_path, models=models))
    assert made.proposer.name == "llm" and made.reviewer is made.proposer and made.estimate is not None
    alone = proposing.make(Given(started(replace(WISHES, proposer="files"), rmsnorm, {}), rmsnorm.task, tmp_path))
    assert alone.reviewer is None and alone.estimate is None


def test_models_are_for_a_proposer_that_asks_them(rmsnorm: Subject) -> None:
    with pytest.raises(KernelwrightError, match="the proposer files asks no models: use --proposer llm"):
        started(replace(WISHES, proposer="files", asked=MODELS), rmsnorm, {})


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [("seed", -1, 0), ("plateau", 0, 1), ("threads", -2, 0), ("wait", -0.5, 0), ("ahead", 0, 1)],
)
def test_a_number_that_makes_no_sense_is_named(name: str, value: float, least: int) -> None:
    with pytest.raises(KernelwrightError, match=f"^{name} is {value}, and has to be at least {least}$"):
        replace(WISHES, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_wait_that_no_journal_can_keep_is_refused(value: float) -> None:
    with pytest.raises(KernelwrightError, match=f"^wait is {value}, and has to be a number that is at least 0$"):
        replace(WISHES, wait=value)
