"""Options are declared once: the command, Python, the journal, the checks and resuming follow from them."""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest

import kernelwright
from kernelwright.cli.main import assembled
from kernelwright.cli.optimize import optimize as command
from kernelwright.devices.names import Device
from kernelwright.errors import KernelwrightError
from kernelwright.llm.ensemble import open_ensemble
from kernelwright.search import proposing
from kernelwright.search.config import FIELDS, OPTIONS, RESUMABLE, SearchConfig, config_from, flag_of, placed, started
from kernelwright.search.core.budget import parse
from kernelwright.search.core.events import Started
from kernelwright.search.core.state import fold
from kernelwright.search.proposing import Given
from kernelwright.search.task import ResolvedTask, TaskChangedError, resolve_task

CONFIG = SearchConfig(task="rmsnorm", threads=2, seed=7, plateau=9, answer_timeout=5.0, policy="greedy:mates=2")
MODELS = {"models": ("http://127.0.0.1:9/v1#one",), "proposals_per_generation": 6, "judged_per_generation": 3}
NOT_FROM_OPTIONS = {
    *("kind", "at", "after", "task", "task_name", "task_digest", "bounds"),
    *("judges", "policy_parameters", "lockstep", "repairs"),  # follow from the device, the policy and the proposer
}


@pytest.fixture(scope="module")
def rmsnorm() -> ResolvedTask:
    return resolve_task("rmsnorm", "cpu")


def test_the_command_has_exactly_these_options_with_their_help_and_defaults() -> None:
    parameters = inspect.signature(command).parameters
    assert set(parameters) - {"context", "task", "resume", "json"} == set(OPTIONS)
    from typer.testing import CliRunner

    shown = _packed(CliRunner().invoke(assembled(["optimize"]), ["optimize", "--help"]).output)
    for name, option in OPTIONS.items():
        assert flag_of(name) in shown and _packed(option.help) in shown, name
        default = FIELDS[name].default
        assert parameters[name].default == (None if default == () else default)


def _packed(text: str) -> str:
    """Without blanks and line ends, which depend on the terminal."""
    return "".join(text.split())


def test_python_has_exactly_these_options_with_their_defaults() -> None:
    parameters = inspect.signature(kernelwright.optimize).parameters
    others = {"function", "example_inputs", "example_kwargs", "name", "direction", "resume", "on_progress"}
    assert set(parameters) - others == set(OPTIONS)
    for name in OPTIONS:
        assert parameters[name].default == FIELDS[name].default, name
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY


def test_the_journal_keeps_every_option_that_a_resumed_run_needs() -> None:
    kept = {option.journal for option in OPTIONS.values() if option.journal}
    assert kept == set(Started.model_fields) - NOT_FROM_OPTIONS
    forgotten = {name for name, option in OPTIONS.items() if not option.journal and not option.resumable}
    assert forgotten == {"start"}  # its candidates are in the journal
    assert RESUMABLE == ("budget", "record", "replay", "runs", "no_server", "isolation", "trust_task")


def test_the_options_page_names_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "optimize.md").read_text()
    rows = re.findall(r"`(--[a-z-]+)`", page)
    assert {flag_of(name) for name in OPTIONS} <= set(rows)
    assert "--ahead" not in rows and "--wait" not in rows


def test_a_list_one_value_or_none_stands_for_several() -> None:
    hints = get_type_hints(SearchConfig)
    assert hints["start"] == tuple[Path, ...]
    for given in ("a.cpp", Path("a.cpp"), ["a.cpp"], (Path("a.cpp"),)):
        assert config_from("t", {"start": given}).start == (Path("a.cpp"),)
    assert config_from("t", {"start": None, "baseline": "eager", "runs": "x"}) == SearchConfig(
        task="t", baseline=("eager",), runs=Path("x")
    )


def test_a_run_keeps_its_options_and_how_its_proposer_is_asked(rmsnorm: ResolvedTask) -> None:
    run = started(CONFIG, rmsnorm, {"a": 1.0})
    kept = (run.task, run.task_name, run.threads, run.seed, run.plateau, run.answer_timeout, run.open_requests)
    assert kept == ("rmsnorm", "rmsnorm", 2, 7, 9, 5.0, 1)
    assert run.policy == "greedy" and run.policy_parameters["mates"] == 2 and len(run.policy_parameters) == 4
    assert run.task_digest == rmsnorm.digest and run.bounds == {"a": 1.0}
    assert run.lockstep and run.repairs == 0 and run.ensemble is None
    assert run.proposals_per_generation == run.judged_per_generation == 0
    asked = started(replace(CONFIG, proposer="files", open_requests=3, budget="9evals,5usd"), rmsnorm, {})
    assert not asked.lockstep and asked.repairs == 3 and asked.open_requests == 3
    assert fold([asked]).budget == parse("9evals,5usd") and fold([run]).budget == parse("200evals,30m")


def test_a_run_is_gone_on_with_only_if_it_says_what_its_task_was(rmsnorm: ResolvedTask) -> None:
    run = started(CONFIG, rmsnorm, {})
    rmsnorm.require_same(run)
    for digest, said in (("", "does not say what its task was"), ("0" * 64, "has changed since the run started")):
        with pytest.raises(TaskChangedError, match=said):
            rmsnorm.require_same(run.model_copy(update={"task_digest": digest}))


@pytest.mark.parametrize("proposer", ["templates", "llm"])
def test_a_run_that_can_be_repeated_has_one_request_open_at_a_time(rmsnorm: ResolvedTask, proposer: str) -> None:
    with pytest.raises(KernelwrightError, match=f"the proposer {proposer} .* --open-requests is for --proposer files"):
        started(replace(CONFIG, proposer=proposer, open_requests=2), rmsnorm, {})


def test_a_run_compares_with_what_is_usual_on_its_device_unless_others_are_named(rmsnorm: ResolvedTask) -> None:
    assert started(CONFIG, rmsnorm, {}).baselines == ("eager", "compile")
    gpu = replace(CONFIG, contract="cuda", device="cuda", baseline=("compile-best",))
    assert started(gpu, rmsnorm, {}).baselines == ("compile-best",)


def test_several_devices_are_several_judges(rmsnorm: ResolvedTask) -> None:
    assert placed(None, "cuda:0,cuda:1") == ("cuda", (device("cuda:0"), device("cuda:1")))
    run = started(replace(CONFIG, device="cuda:0,cuda:1"), rmsnorm, {})
    assert run.judges == 2 and run.devices == ("cuda:0", "cuda:1")
    for given, said in (("cuda:1,cuda:1", "twice"), ("cpu,cuda", "must be of one kind")):
        with pytest.raises(KernelwrightError, match=said):
            placed(None, given)


def device(name: str) -> Device:
    from kernelwright.devices.names import device_named

    return device_named(name)


def test_a_run_with_models_keeps_which_they_are_and_reviews_challengers(rmsnorm: ResolvedTask, tmp_path: Path) -> None:
    run = started(replace(CONFIG, proposer="llm", **MODELS), rmsnorm, {})  # type: ignore[arg-type]
    assert run.ensemble is not None and (run.proposals_per_generation, run.judged_per_generation) == (6, 3)
    with open_ensemble(run.ensemble, limit_usd=None, record=None, spent=0.0) as models:
        made = proposing.make(Given(run, rmsnorm.task, tmp_path, models=models))
    assert made.proposer.name == "llm" and made.reviewer is made.proposer and made.estimate is not None
    alone = proposing.make(Given(started(replace(CONFIG, proposer="files"), rmsnorm, {}), rmsnorm.task, tmp_path))
    assert alone.reviewer is None and alone.estimate is None


def test_models_are_for_a_proposer_that_asks_them(rmsnorm: ResolvedTask) -> None:
    with pytest.raises(KernelwrightError, match="the proposer files asks no models: use --proposer llm"):
        started(replace(CONFIG, proposer="files", **MODELS), rmsnorm, {})  # type: ignore[arg-type]


def test_no_more_can_be_judged_than_proposed() -> None:
    with pytest.raises(
        KernelwrightError, match="--judged-per-generation cannot be more than --proposals-per-generation"
    ):
        replace(CONFIG, proposals_per_generation=2, judged_per_generation=3)


@pytest.mark.parametrize(("name", "option"), [(n, o) for n, o in OPTIONS.items() if o.least is not None])
def test_a_number_that_makes_no_sense_is_named(name: str, option: object) -> None:
    least = OPTIONS[name].least
    assert least is not None
    with pytest.raises(KernelwrightError, match=f"^{name} is {least - 1}, and must be at least {least}$"):
        replace(CONFIG, **{name: least - 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_timeout_that_no_journal_can_keep_is_refused(value: float) -> None:
    with pytest.raises(KernelwrightError, match=f"^answer_timeout is {value}, and must be a number of at least"):
        replace(CONFIG, answer_timeout=value)
