"""A benchmark goes through its samples, survives whatever happens to one of them, and goes on where it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernelwright.benchmark.driver import Benchmark, FatalError
from kernelwright.benchmark.entrants import Attempt, CandidateEntrant, Entrant, OpenedTask
from kernelwright.benchmark.journal import ResultsFile, read_results
from kernelwright.benchmark.metrics import claim, metrics
from kernelwright.benchmark.results import (
    Begun,
    BenchmarkEnvironment,
    BenchmarkPlan,
    RejectionClass,
    Results,
    ResultsError,
    RowOutcome,
    SampleRow,
)
from kernelwright.benchmark.suites import SuiteTask
from kernelwright.contracts import Candidate
from kernelwright.errors import CannotDecide, KernelwrightError
from kernelwright.judge.settings import Settings
from kernelwright.search.judging import JudgeSettings
from tests.benchmark.made import ENVIRONMENT, plan, row
from tests.search.toy import ToyJudge, source_of, speed

RIGHT, SLOW, WRONG = (5,) * 8, (0,) * 8, (3, 0, 0, 0, 0, 0, 0, 0)


class Quiet:
    """A view that remembers."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def begin(self, task: str, sample: int, done: int, planned: int) -> None:
        self.seen.append(f"{task} {sample}")

    def progress(self, text: str) -> None: ...

    def row(self, row: SampleRow) -> None: ...

    def unopened(self, task: str, why: str) -> None: ...


def opened(task: SuiteTask) -> OpenedTask:
    if task.name == "closed":
        raise KernelwrightError("cannot be traced")
    return OpenedTask(task)


@dataclass
class Made:
    """A benchmark over candidates of a toy folder, which can be begun any number of times."""

    folder: Path
    candidates: dict[str, list[tuple[int, ...] | str]]
    judge: ToyJudge = field(default_factory=ToyJudge)
    environment: BenchmarkEnvironment = ENVIRONMENT
    view: Quiet = field(default_factory=Quiet)
    entrant: Entrant | None = None
    retry: bool = False

    @property
    def file(self) -> Path:
        return self.folder / "r.jsonl"

    def plan(self) -> BenchmarkPlan:
        made = plan(list(self.candidates))
        tasks = [
            one.model_copy(update={"samples": len(files)})
            for one, files in zip(made.tasks, self.candidates.values(), strict=True)
        ]
        return made.model_copy(update={"tasks": tuple(tasks)})

    def paths(self) -> dict[str, tuple[Path, ...]]:
        found = {}
        for task, sources in self.candidates.items():
            paths = [self.folder / f"{task}.{number}.cpp" for number in range(len(sources))]
            for path, source in zip(paths, sources, strict=True):
                path.write_text(source if isinstance(source, str) else source_of(source))
            found[task] = tuple(paths)
        return found

    def go(self) -> Results:
        entrant = self.entrant or CandidateEntrant(self.paths(), self.judge, JudgeSettings())
        tasks = [SuiteTask(name, name, "all") for name in self.candidates]
        file = ResultsFile(self.file)
        try:
            return Benchmark(file, self.plan(), tasks, entrant, opened, self.environment, self.view, self.retry).go()
        finally:
            file.close()


def outcomes(found: Results) -> list[tuple[str, int, str]]:
    return [(one.task, one.sample, one.outcome.value) for one in found.rows]


def test_every_candidate_has_a_row_with_what_the_judge_said(tmp_path: Path) -> None:
    found = Made(tmp_path, {"a": [RIGHT, WRONG], "b": [SLOW, " "]}).go()
    assert outcomes(found) == [
        ("a", 0, "accepted"), ("a", 1, "rejected"), ("b", 0, "accepted"), ("b", 1, "rejected"),
    ]  # fmt: skip
    assert found.rows[1].rejections == {RejectionClass.wrong: 1}
    assert "is empty" in found.rows[3].why
    assert claim(found.rows[0]) == pytest.approx(speed(RIGHT), rel=0.1)
    overall = metrics(found).overall
    assert (overall.correct.value, overall.fast[1.0].value, overall.pass_at[2].value) == (0.5, 0.25, 1.0)


def test_nothing_is_judged_twice(tmp_path: Path) -> None:
    made = Made(tmp_path, {"a": [RIGHT], "b": [SLOW]})
    first = made.go()
    calls = len(made.judge.calls)
    assert made.go().rows == first.rows
    assert len(made.judge.calls) == calls


@dataclass
class Once:
    """Raises once, at the sample that is named, and is a toy's judge otherwise."""

    error: BaseException
    at: int
    asked: int = 0

    def __call__(self, candidate: Candidate, settings: Settings) -> None:
        self.asked += 1
        if self.asked == self.at:
            raise self.error


@pytest.mark.parametrize(
    "error", [CannotDecide("the server ended twice"), MemoryError("no room"), ValueError("a bug\nof two lines")]
)
def test_a_failure_is_one_row_and_the_rest_goes_on(tmp_path: Path, error: Exception) -> None:
    made = Made(tmp_path, {"a": [RIGHT], "b": [RIGHT], "c": [RIGHT]}, ToyJudge(asked=Once(error, 2)))
    found = made.go()
    assert [one.outcome for one in found.rows] == [RowOutcome.accepted, RowOutcome.failed, RowOutcome.accepted]
    assert "\n" not in found.rows[1].why
    assert metrics(found).overall.correct.value == pytest.approx(2 / 3)
    made.retry = True
    assert [one.outcome for one in sorted(made.go().rows, key=lambda one: one.task)] == [RowOutcome.accepted] * 3


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BrokenPipeError("the reader of a pipe has gone")])
def test_an_interrupt_leaves_a_file_that_goes_on(tmp_path: Path, error: BaseException) -> None:
    made = Made(tmp_path, {"a": [RIGHT], "b": [RIGHT]}, ToyJudge(asked=Once(error, 2)))
    with pytest.raises(type(error)):
        made.go()
    kept = read_results(made.file)
    assert outcomes(kept) == [("a", 0, "accepted")]
    assert "b 0" not in kept.attempts
    assert outcomes(made.go()) == [("a", 0, "accepted"), ("b", 0, "accepted")]
    assert made.view.seen == ["a 0", "b 0", "b 0"]


def test_a_sample_at_which_the_command_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    made = Made(tmp_path, {"a": [RIGHT], "b": [RIGHT]})
    file = ResultsFile(made.file)
    for line in (made.plan(), ENVIRONMENT, *(Begun(task="a", sample=0, at=1.0) for _ in range(3))):
        file.append(line)
    file.close()
    found = made.go()
    assert outcomes(found) == [("a", 0, "failed"), ("b", 0, "accepted")]
    assert found.rows[0].why == "the command ended 3 times while it was at this sample"


def test_a_task_that_cannot_be_opened_is_left_out_and_said(tmp_path: Path) -> None:
    made = Made(tmp_path, {"closed": [RIGHT, RIGHT], "a": [RIGHT]})
    found = made.go()
    assert found.unopened == {"closed": "cannot be traced"}
    assert outcomes(found) == [("a", 0, "accepted")]
    assert made.view.seen == ["closed 0", "a 0"]
    assert (found.judged, found.planned) == (1, 1)


def test_another_plan_or_machine_does_not_go_on_with_a_file(tmp_path: Path) -> None:
    made = Made(tmp_path, {"a": [RIGHT]})
    made.go()
    with pytest.raises(ResultsError, match=r"begun with other options \(tasks differs\)"):
        Made(tmp_path, {"a": [RIGHT], "b": [RIGHT]}).go()
    elsewhere = ENVIRONMENT.model_copy(update={"device": "cpu: another"})
    with pytest.raises(ResultsError, match=r"the device differs \(cpu: toy and cpu: another\); .* --output"):
        Made(tmp_path, {"a": [RIGHT]}, environment=elsewhere).go()


@dataclass
class Searching:
    """An entrant that keeps the folder of its search before it dies, or finishes."""

    dies: bool
    runs: list[str] = field(default_factory=list)

    def take(self, attempt: Attempt) -> SampleRow:
        self.runs.append(attempt.run)
        if not attempt.run:
            attempt.note_run("a-0001")
        if self.dies:
            raise KeyboardInterrupt
        return row(attempt.opened.task.name, attempt.sample)


def test_a_search_that_was_begun_is_gone_on_with(tmp_path: Path) -> None:
    first, second = Searching(dies=True), Searching(dies=False)
    with pytest.raises(KeyboardInterrupt):
        Made(tmp_path, {"a": [RIGHT]}, entrant=first).go()
    Made(tmp_path, {"a": [RIGHT]}, entrant=second).go()
    assert (first.runs, second.runs) == ([""], ["a-0001"])


class Keyless:
    def take(self, attempt: Attempt) -> SampleRow:
        raise FatalError("OPENAI_API_KEY is not set")


def test_what_would_fail_for_every_task_ends_the_command_and_is_not_a_row(tmp_path: Path) -> None:
    made = Made(tmp_path, {"a": [RIGHT], "b": [RIGHT]}, entrant=Keyless())
    with pytest.raises(FatalError):
        made.go()
    assert read_results(made.file).rows == ()
