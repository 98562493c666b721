"""`optimize --proposer llm` and `prompt`: what they print, what they refuse, and that a replay asks no model."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from tests.cli.test_optimize import Judge, run, runner
from tests.llm.scripted import Behaviour, Good, Seen, serving
from tests.proposers.llm import acting, samples

from kernelwright.cli import optimize, prompt
from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.llm import calling
from kernelwright.llm.model import Match
from kernelwright.proposers.llm.proposer import ProposerTools
from kernelwright.proposers.model import Once
from kernelwright.search import models, session
from kernelwright.search.core.events import ModelCalled, Refused
from kernelwright.search.journal import read
from kernelwright.search.run import look, take_up

app = assembled(COMMANDS)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The toy's judge and the toy's ground; everything between them and the command line is real."""
    monkeypatch.setattr(session, "ServerJudge", Judge)
    monkeypatch.setattr(optimize, "is_proved", lambda state: True)  # a toy judge keeps no certificates
    monkeypatch.setattr(session, "_bounds", lambda task: {})
    monkeypatch.setattr(Judge, "stop_after", 10**9)
    monkeypatch.setattr(models, "Once", lambda make: Once(lambda: ProposerTools(samples.ground(), (acting.builds,))))
    monkeypatch.setattr(calling, "FIRST_WAIT", 0.001)
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))
    return tmp_path


def well(seen: Seen) -> Behaviour:
    return Good(lambda seen: acting.act(seen.prompt, seen.body["seed"]))


def ensemble(folder: Path, url: str) -> Path:
    path = folder / "models.toml"
    path.write_text(
        f'[[members]]\nname = "scripted"\nprovider = "compatible"\nmodel = "m"\nbase_url = "{url}"\n'
        "max_output_tokens = 1000\nprice = { input = 1.0, output = 10.0 }\n"
    )
    return path


def test_a_run_says_what_it_may_cost_and_what_it_did(place: Path) -> None:
    with serving(well) as server:
        models = ensemble(place, server.url)
        command = ["optimize", "rmsnorm", "--proposer", "llm", "--ensemble", str(models), "--budget", "30evals,5usd"]
        code, said = run(*command, "--record", str(place / "tape"))
        asked = len(server.seen)
    assert code == 0, said
    assert "estimate: a generation asks 8 times" in said and "the run stops at $5.00" in said
    assert f"{asked} calls of models" in said and "reviewers found nothing dishonest" in said
    code, again = run(*command, "--replay", str(place / "tape"))
    assert code == 0 and f"{asked} calls of models" in again and len(server.seen) == asked
    assert f"answered from recordings: {asked} by the very request\n" in again and "recordings" not in said
    replayed = json.loads(run("runs", "show", "rmsnorm-2", "--json")[1])
    assert replayed["outcomes"] == {"ok": asked} and replayed["matches"] == {"request": asked}
    report = json.loads(runner.invoke(app, ["runs", "show", "rmsnorm-1", "--json"]).stdout)
    assert report["calls"] == asked and report["usd"] > 0 and report["best"]["review"]
    assert (place / "runs" / "rmsnorm-1" / "candidates").is_dir()


def test_a_journal_with_costs_below_nothing_is_gone_on_with(place: Path) -> None:
    """As they were written down when cached tokens were taken off a prompt that they were no part of."""
    with serving(well) as server:
        models = ensemble(place, server.url)
        run("optimize", "rmsnorm", "--proposer", "llm", "--ensemble", str(models), "--budget", "6evals,5usd")
        folder = place / "runs" / "rmsnorm-1"
        called = next(event.call for event in read(folder) if isinstance(event, ModelCalled))
        before = look(folder).spent.usd
        old = take_up(folder, "6evals", time.time())
        old.append(Refused(at=time.time(), request=1, name="", why="no", member="scripted", usd=-0.4))
        old.append(ModelCalled.model_construct(at=time.time(), call=called.model_copy(update={"usd": -0.4})))
        old.close()
        assert run("optimize", "--resume", "rmsnorm-1", "--budget", "12evals,5usd")[0] == 0
    assert look(folder).spent.usd >= before > 0


def test_a_replay_of_another_run_says_what_it_found_and_goes_on_after_it(place: Path) -> None:
    """With another seed no call is the same. Each recording is lent once, also to a run that is gone on with."""
    with serving(well) as server:
        models = ensemble(place, server.url)
        command = [
            "optimize",
            "rmsnorm",
            "--proposer",
            "llm",
            "--ensemble",
            str(models),
            "--proposals-per-generation",
            "4",
        ]
        run(*command, "--budget", "20evals", "--record", str(place / "tape"))
    replay = ["--replay", str(place / "tape")]
    said = run(*command, "--budget", "5evals", "--seed", "7", *replay)[1]
    assert re.search(r"answered from recordings: \d+ by the same sources", said), said
    said = run("optimize", "--resume", "rmsnorm-2", "--budget", "20evals", *replay)[1]
    assert re.search(r"\d+ by the same sources, \d+ by order, \d+ not recorded\n", said), said
    calls = [event.call for event in read(place / "runs" / "rmsnorm-2") if isinstance(event, ModelCalled)]
    lent = [call.recording for call in calls if call.match in (Match.material, Match.order)]
    assert len(lent) > 4 and len(set(lent)) == len(lent)


def test_a_replay_that_has_nothing_is_refused_before_the_task_is_read(place: Path) -> None:
    (place / "empty").mkdir()
    models = ["--proposer", "llm", "--models", "ollama:m"]
    code, said = run("optimize", "no-such-task", *models, "--replay", str(place / "empty"))
    assert code == 2 and said == f"{place / 'empty'}: has no recordings in it; a run with --record makes some"


def test_a_run_whose_models_cannot_be_reached_ends_early_and_says_why(place: Path) -> None:
    models = ["--models", "http://127.0.0.1:9/v1#one", "--models", "http://127.0.0.1:9/v1#two"]
    code, said = run("optimize", "rmsnorm", "--proposer", "llm", *models, "--budget", "30evals,30m")
    assert code == 1 and "no answer came (" in said and "http://127.0.0.1:9/v1: no connection" in said
    report = json.loads(run("runs", "show", "rmsnorm-1", "--json")[1])
    assert report["stopped"] == "unanswered" and report["calls"] <= 16
    assert run("optimize", "--resume", "rmsnorm-1")[0] == 1  # it asks again
    assert json.loads(run("runs", "show", "rmsnorm-1", "--json")[1])["calls"] > report["calls"]


def test_what_would_be_sent_is_what_is_sent(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "shown_task", lambda *_: samples.ground().task)
    monkeypatch.setattr(prompt, "shown_device", lambda *_: samples.ground().device)
    with serving(well) as server:
        models = ensemble(place, server.url)
        run(
            "optimize",
            "rmsnorm",
            "--proposer",
            "llm",
            "--ensemble",
            str(models),
            "--budget",
            "24evals",
            "--proposals-per-generation",
            "4",
        )
        sent = {(one.messages[0]["content"], one.messages[-1]["content"]) for one in server.seen}
    best = json.loads(run("runs", "show", "rmsnorm-1", "--json")[1])["best"]["number"]
    about = ["--run", "rmsnorm-1", "--number", str(best), "--json"]
    shown = json.loads(run("prompt", "rmsnorm", "--stage", "verify-cheating", *about)[1])
    assert (shown["system"], shown["user"]) in sent
    for stage, said in (("evolve", "# The parent"), ("diagnose-bottleneck", "`limit`")):
        assert said in json.loads(run("prompt", "rmsnorm", "--stage", stage, *about)[1])["user"]
    for stage, said in (("repair", "Repair it."), ("diagnose-error", "its result is wrong")):
        code, told = run("prompt", "rmsnorm", "--stage", stage, *about)
        assert code == 2 and f"{stage} is about a failure, and candidate {best} was accepted" in told
        assert said in json.loads(run("prompt", "rmsnorm", "--stage", stage, "--run", "rmsnorm-1", "--json")[1])["user"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--proposer", "llm"], "model"),
        (["--proposer", "llm", "--models", "gpt"], "is not a model"),
        (["--proposer", "llm", "--models", "openai:gpt-5"], "OPENAI_API_KEY"),
        (["--proposer", "templates", "--models", "ollama:m"], "asks no models"),
        (
            ["--proposer", "llm", "--models", "ollama:m", "--proposals-per-generation", "2"],
            "--judged-per-generation cannot be more than --proposals-per-generation",
        ),
        (
            ["--proposer", "llm", "--models", "ollama:m", "--replay", "nowhere"],
            "is not a folder or an archive of recordings",
        ),
        (["--proposer", "llm", "--models", "ollama:m", "--replay", "EMPTY"], "has no recordings in it"),
        (["--proposer", "llm", "--models", "ollama:m", "--replay", ".", "--record", "x"], "leave out one of them"),
        (["--replay", "nowhere"], "need --proposer llm"),
        (["--proposer", "llm", "--ensemble", "nowhere.toml"], "nowhere.toml: No such file"),
        (["--budget", "5usdollars"], "cannot read '5usdollars'"),
    ],
)
def test_one_line_for_bad_input(place: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (place / "empty").mkdir()
    code, text = run("optimize", "rmsnorm", *(str(place / "empty") if one == "EMPTY" else one for one in arguments))
    assert code == 2 and said in text and len(text.strip().splitlines()) == 1
    assert not (place / "runs").exists() or not list((place / "runs").iterdir())


@pytest.mark.parametrize("contract", ["cpp", "cuda"])
def test_a_prompt_is_printed_as_it_would_be_sent(contract: str) -> None:
    code, said = run("prompt", "softmax:backward", "--contract", contract)
    assert code == 0 and "softmax:backward" in said and "Idea:" in said and f"the {contract} contract" in said
    report = json.loads(run("prompt", "softmax:backward", "--contract", contract, "--json")[1])
    assert said == f"{report['system']}\n---\n\n{report['user']}" and len(report["sha256"]) == 64


def test_a_prompt_about_a_source(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text("// nothing yet\nvoid kernel() {}\n")
    code, said = run("prompt", "softmax", "--stage", "verify-numerics", "--source", str(source))
    assert code == 0 and "void kernel() {}" in said and "`passes`" in said
    for stage in ("repair", "diagnose-error"):
        code, said = run("prompt", "softmax", "--stage", stage, "--source", str(source))
        assert code == 2 and said == (
            f"{stage} is about a failure, and a --source has not been judged: "
            "name a candidate that was rejected, with --run and --number"
        )
        code, said = run("prompt", "softmax", "--stage", stage)
        assert code == 2 and said.startswith(f"{stage} is about a failure: name a candidate that was rejected")
    code, said = run("prompt", "softmax", "--stage", "evolve")
    assert code == 2 and "name one with --source, or with --run and --number" in said
