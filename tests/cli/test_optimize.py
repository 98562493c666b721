"""`optimize` and `runs`: what they print, what they refuse, and how a run is gone on with. The judge is a toy."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.search import toy
from tests.search.test_journal import damaged
from tests.tasks.samples import GOOD_FILE
from typer.testing import CliRunner

from kernelwright.cli import optimize
from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.contracts import Candidate
from kernelwright.errors import KernelwrightError
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.verdict import Verdict
from kernelwright.search import proposing, session
from kernelwright.search.run import look
from kernelwright.search.summary import is_proved

app = assembled(COMMANDS)

runner = CliRunner()


class Judge(toy.ToyJudge):
    """In the place of the warm judge."""

    stop_after = 10**9

    def __init__(self, settings: Settings, *, own: bool = False, leave_at: float | None = None) -> None:
        super().__init__()

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def open(self, task: str, progress: ProgressCallback, deadline: float | None = None) -> None:
        return None

    def judge(  # type: ignore[override]
        self, task: str, candidate: Candidate, progress: ProgressCallback, settings: Settings, deadline: float
    ) -> Verdict:
        if len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        return super().judge(task, candidate, settings, progress, deadline)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(session, "ServerJudge", Judge)
    monkeypatch.setattr(optimize, "is_proved", lambda state: True)  # a toy judge keeps no certificates
    monkeypatch.setattr(session, "_bounds", lambda task: {"a": 1e-9})
    monkeypatch.setitem(proposing.PROPOSERS, "templates", toy.KIND)
    monkeypatch.setattr(Judge, "stop_after", 10**9)
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(app, [*arguments])
    if isinstance(result.exception, KernelwrightError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout + result.stderr


def test_a_search_says_what_it_found_and_where(place: Path) -> None:
    code, said = run("optimize", "rmsnorm", "--budget", "30evals", "--policy", "greedy")
    assert code == 0
    assert f"run {place / 'rmsnorm-1'}" in said and "is the new best" in said
    for wanted in ("the budget is used up", "over the best baseline", "over eager", "kernel   a toy", "best 0"):
        assert wanted in said
    assert (place / "rmsnorm-1" / "best" / "kernel.cpp").exists()


def test_a_best_without_certificates_here_ends_with_exit_code_1(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimize, "is_proved", is_proved)
    code, said = run("optimize", "rmsnorm", "--budget", "20evals")
    assert code == 1 and "not proved here" in said


def test_a_path_is_shown_as_it_is(place: Path) -> None:
    runs = place / "a[/b] [old]"
    code, said = run("optimize", "rmsnorm", "--budget", "20evals", "--runs", str(runs))
    assert code == 0 and said.count(f"{runs / 'rmsnorm-1'}") >= 3
    code, said = run("runs", "show", str(runs / "rmsnorm-1"))
    assert code == 0 and str(runs / "rmsnorm-1") in said


def test_a_budget_without_room_for_a_final_does_what_it_can_and_says_so(place: Path) -> None:
    code, said = run("optimize", "rmsnorm", "--budget", "1evals,40s", "--seed", "2")
    assert code == 1 and "1 evaluation, " in said and "0001  accepted" in said
    assert "the fastest so far is 0001" in said and "no budget was left for its final" in said
    about = look(place / "rmsnorm-1").entries[1].estimate
    assert f"none; about {about:.2f}× (estimate)" in run("runs", "list")[1]


def test_json_has_nothing_else_on_standard_output(place: Path) -> None:
    result = runner.invoke(app, ["optimize", "rmsnorm", "--budget", "20evals", "--json"])
    report = json.loads(result.stdout)
    assert report["schema_version"] == 1 and report["command"] == "optimize" and report["stopped"] == "budget"
    assert report["best"]["score"] > 1 and report["best"]["verdict"]["view"] == "author"
    assert report["best"]["beats_baseline"] is True and result.exit_code == 0
    assert report["policy_parameters"] == {"islands": 3, "migrate": 5, "fresh": 0.12, "crossover": 0.3}
    spent = report["seconds_spent_on"]
    assert spent.keys() == {"preparation", "proposing", "judging", "finals"} and spent["preparation"] > 0
    assert sum(spent[name] for name in ("preparation", "judging", "finals")) <= report["wall_seconds"]


def test_a_start_is_reported_against(place: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.cpp").write_text(toy.source_of((0, 7, 0, 7, 0, 7, 0, 6)))
    code, said = run("optimize", "rmsnorm", "--budget", "60evals", "--start", str(tmp_path / "mine.cpp"))
    assert code == 0 and "over mine.cpp" in said


def test_ctrl_c_prints_how_to_go_on_and_resume_does(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "stop_after", 12)
    code, said = run("optimize", "rmsnorm", "--budget", "40evals", "--seed", "3")
    hint = f"kernelwright optimize --resume {place / 'rmsnorm-1'}\n"
    assert code == 3 and said.endswith(f"interrupted; continue with: {hint}") and said.count("--resume") == 1
    shown = run("runs", "show", "rmsnorm-1")[1]
    assert shown.endswith(hint) and shown.count("--resume") == 1
    monkeypatch.setattr(Judge, "stop_after", 10**9)
    code, said = run("optimize", "--resume", "rmsnorm-1")
    assert code == 0 and "its budget" in said
    assert "stopped: budget" in run("runs", "list")[1]


def test_a_spent_budget_is_said_before_anything_is_opened(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ServerJudge", None)  # which cannot be opened
    for evaluations in (2, 3, 4, 20):
        with monkeypatch.context() as opened:
            opened.setattr(session, "ServerJudge", Judge)
            assert run("optimize", "rmsnorm", "--budget", f"{evaluations}evals,10m", "--seed", "2")[0] in (0, 1)
        name = f"rmsnorm-{len(list(place.iterdir()))}"
        before = look(place / name)
        for given in ([], ["--budget", f"{evaluations}evals"]):
            code, said = run("optimize", "--resume", name, *given)
            assert code == 2 and said.startswith(f"{place / name}: its budget {evaluations}evals") and "\n" not in said
            assert "counted from the start of the run" in said and f"{before.spent.evaluations} evaluations" in said
        assert look(place / name) == before
        with monkeypatch.context() as opened:
            opened.setattr(session, "ServerJudge", Judge)
            assert run("optimize", "--resume", name, "--budget", said.split("--budget ")[1])[0] in (0, 1)
        assert look(place / name).spent.evaluations > before.spent.evaluations


def test_how_to_resume_can_be_pasted_and_goes_on(place: Path) -> None:
    runs = place / "with space"
    said = run("optimize", "rmsnorm", "--budget", "20evals", "--runs", str(runs))[1]
    hint = next(line.split("kernelwright ")[1] for line in said.splitlines() if line.startswith("  resume"))
    assert hint == f"optimize --resume '{runs / 'rmsnorm-1'}' --budget 40evals"
    assert run(*shlex.split(hint))[0] == 0 and look(runs / "rmsnorm-1").spent.evaluations > 20


def test_a_task_that_changed_is_said_at_resume_and_nothing_is_judged(place: Path, tmp_path: Path) -> None:
    task = tmp_path / "double.py"
    task.write_text(GOOD_FILE)
    assert run("optimize", str(task), "--budget", "10evals")[0] == 0
    before = look(place / "double-1")
    task.write_text(GOOD_FILE.replace("2 * x", "3 * x"))
    code, said = run("optimize", "--resume", "double-1", "--budget", "20evals")
    assert code == 2 and said.startswith(f"{task}: the task has changed since the run started; restore it")
    assert look(place / "double-1") == before
    task.write_text(GOOD_FILE)
    assert run("optimize", "--resume", "double-1", "--budget", "20evals")[0] == 0


def test_a_task_that_changes_while_a_run_goes_on_ends_it(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tmp_path / "double.py"
    task.write_text(GOOD_FILE)

    class Editing(Judge):
        def judge(self, *arguments: Any) -> Verdict:
            if len(self.calls) == 3:
                task.write_text(GOOD_FILE.replace("2 * x", "3 * x"))
            return super().judge(*arguments)

    monkeypatch.setattr(session, "ServerJudge", Editing)
    code, said = run("optimize", str(task), "--budget", "10evals")
    assert code == 2 and "the task has changed since the run started" in said
    assert look(place / "double-1").evaluated == 3  # what was judged meanwhile does not count


def test_a_best_that_is_slower_than_the_baseline_is_said_to_be(place: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.cpp").write_text(toy.source_of((0, 7, 0, 7, 0, 7, 0, 6)))
    code, said = run("optimize", "rmsnorm", "--budget", "2evals", "--start", str(tmp_path / "mine.cpp"))
    assert code == 1 and "best 0001  0." in said and "the best baseline is still faster" in said
    report = json.loads(run("runs", "show", "rmsnorm-1", "--json")[1])
    assert report["best"]["beats_baseline"] is False and report["best"]["score"] < 1
    assert "- **the best baseline is still faster" in (place / "rmsnorm-1" / "summary.md").read_text()
    assert "still faster" not in run("optimize", "rmsnorm", "--budget", "60evals")[1]


def test_runs_are_listed_and_shown(place: Path) -> None:
    assert "no runs in" in run("runs", "list")[1]
    run("optimize", "rmsnorm", "--budget", "10evals")
    (place / "broken").mkdir()
    (place / "broken" / "journal.db").write_text("no database at all\n" * 50)
    listed = json.loads(run("runs", "list", "--json")[1])["runs"]
    assert [one["task"] for one in listed] == [None, "rmsnorm"] and "cannot be read" in listed[0]["fault"]
    assert "its budget" in run("runs", "show", "rmsnorm-1")[1]
    shutil.copytree(place / "rmsnorm-1", place / "rmsnorm-2")
    damaged(place / "rmsnorm-2", "DELETE FROM events WHERE kind = 'proposed'")
    listed = json.loads(run("runs", "list", "--json")[1])["runs"]
    assert [one["task"] for one in listed] == [None, "rmsnorm", None] and "is damaged: event" in listed[2]["fault"]
    assert "is damaged: event" in run("runs", "show", "rmsnorm-2")[1]
    report = json.loads(run("runs", "show", str(place / "rmsnorm-1"), "--json")[1])
    assert report["command"] == "runs show" and report["policy"] == "islands"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["optimize"], "or a run to continue (--resume)"),
        (["optimize", "rmsnorm", "--budget", "soon"], "budget 'soon': cannot read 'soon'"),
        (["optimize", "rmsnorm", "--policy", "lucky"], "unknown policy 'lucky'"),
        (["optimize", "rmsnorm", "--proposer", "oracle"], "unknown proposer 'oracle'"),
        (["optimize", "rmsnorm", "--contract", "fortran"], "unknown contract 'fortran'"),
        (["optimize", "rmsnorm", "--device", "toaster"], "unknown device 'toaster'"),
        (
            ["optimize", "rmsnorm", "--contract", "cpp", "--device", "cuda"],
            "a cpp candidate runs on cpu, not on cuda:0",
        ),
        (["optimize", "rmsnorm", "--start", "nowhere.cpp"], "nowhere.cpp: no such file"),
        (["optimize", "rmsnorm", "--baseline", "magic"], "unknown baseline 'magic'"),
        (["optimize", "rmsnrm"], "did you mean rmsnorm?"),
        (["optimize", "--resume", "nowhere-1"], "nowhere-1: no such run"),
        (["optimize", "rmsnorm", "--resume", "rmsnorm-1"], "leave out TASK; --budget, --record, --replay, --runs,"),
        (
            ["optimize", "--resume", "rmsnorm-1", "--seed", "0", "--start", "x.cpp", "--answer-timeout", "5"],
            "--resume keeps the options that the run started with: leave out --seed, --start and --answer-timeout; "
            "--budget, --record, --replay, --runs, --no-server, --isolation, --trust-task and --json may be given",
        ),
        (["optimize", "rmsnorm", "--answer-timeout", "inf"], "answer_timeout is inf, and must be a number"),
        (["optimize", "rmsnorm", "--policy", "islands:lakes=2"], "has no parameter 'lakes'"),
        (["optimize", "rmsnorm", "--device", "cpu,cpu"], "names a device twice"),
        (["optimize", "rmsnorm", "--budget", f"{'9' * 5000}evals"], "is more than a run can use"),
        (["runs", "show", "nowhere-1"], "nowhere-1: no such run"),
    ],
)
def test_one_line_for_bad_input(place: Path, arguments: list[str], said: str) -> None:
    code, text = run(*arguments)
    assert code == 2 and said in text and len(text.strip().splitlines()) == 1
    assert not list(place.iterdir())
