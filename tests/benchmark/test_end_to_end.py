"""`kernelwright bench` on this machine's CPU, with a right candidate, a wrong one and a cheat; and a search."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernelwright
from kernelwright.benchmark.config import BenchConfig, prepared
from kernelwright.benchmark.driver import Benchmark
from kernelwright.benchmark.entrants import CandidateEntrant, OpenedTask
from kernelwright.benchmark.environment import environment
from kernelwright.benchmark.journal import ResultsFile
from kernelwright.benchmark.leaderboard import leaderboard
from kernelwright.benchmark.metrics import metrics
from kernelwright.benchmark.pages import board_page
from kernelwright.benchmark.results import RejectionClass, RowOutcome
from kernelwright.contracts import Candidate
from kernelwright.devices.names import CPU
from kernelwright.errors import KernelwrightError
from kernelwright.judge.controller import Judge
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Verdict
from kernelwright.search.config import SearchConfig
from kernelwright.search.judging import JudgeSettings
from tests.benchmark.test_driver import Quiet

TASK = "softmax@rows=16,cols=32"
HEAD = "#include <kernelwright.h>\nvoid kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> out) {\n"
RIGHT = (
    HEAD
    + """  for (std::int64_t r = 0; r < x.size(0); ++r) {
    const float* in = x.data + r * x.size(1);
    float* to = out.data + r * x.size(1);
    float most = in[0], sum = 0.0f;
    for (std::int64_t c = 0; c < x.size(1); ++c) most = in[c] > most || in[c] != in[c] ? in[c] : most;
    for (std::int64_t c = 0; c < x.size(1); ++c) sum += to[c] = std::exp(in[c] - most);
    for (std::int64_t c = 0; c < x.size(1); ++c) to[c] /= sum;
  }
}
"""
)
WRONG = HEAD + "  for (std::int64_t i = 0; i < x.size(0) * x.size(1); ++i) out.data[i] = 2.0f / x.size(1);\n}\n"
CHEAT = "#include <unistd.h>\n" + HEAD + "  (void)x; (void)out;\n  _exit(0);\n}\n"


class Direct:
    """The judge of the tests, in this process, with little effort."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def expect(self, *_: object) -> None:
        """There is nothing to build."""

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        little = Settings(baselines=("eager",), effort=Sampling(least=4, most=4), safety=False, domain=False)
        return self._judge.judge(task, candidate, progress, little)


def test_a_right_candidate_a_wrong_one_and_a_cheat(judge: Judge, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "softmax"
    folder.mkdir(parents=True)
    for name, source in (("1_right", RIGHT), ("2_wrong", WRONG), ("3_cheat", CHEAT)):
        (folder / f"{name}.cpp").write_text(source)
    config = BenchConfig(
        suite=TASK,
        candidates=tmp_path / "mine",
        search=SearchConfig(task="", baseline=("eager",)),
        output=tmp_path / "r",
    )
    found = prepared(config)
    file = ResultsFile(config.output)
    results = Benchmark(
        file,
        found.plan,
        found.tasks,
        CandidateEntrant(found.paths, Direct(judge), JudgeSettings()),
        OpenedTask,
        environment(CPU, 0),
        Quiet(),
    ).go()
    file.close()

    right, wrong, cheat = results.rows
    assert right.outcome is RowOutcome.accepted, right.why
    assert [one.hidden for one in right.workloads] == [False, True, True, True]
    assert wrong.rejections == {RejectionClass.wrong: 1}
    assert cheat.rejections == {RejectionClass.protocol: 1}
    overall = metrics(results).overall
    assert overall.correct.value == pytest.approx(1 / 3)
    assert {k: one.value for k, one in overall.pass_at.items()} == {1: pytest.approx(1 / 3), 2: pytest.approx(2 / 3)}
    assert "softmax" in board_page(leaderboard([results]))
    sizes = [size for size in config.output.read_text().split('"') if "hidden" in size]
    assert set(sizes) <= {"hidden", "hidden 1", "hidden 2", "hidden 3", "wrong_hidden"}


def test_what_the_options_do_not_allow_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'budgets'"):
        kernelwright.bench("rmsnorm", budgets="60s")
    with pytest.raises(KernelwrightError, match="candidates or a proposer"):
        kernelwright.bench("rmsnorm", candidates=tmp_path, proposer="templates")
    with pytest.raises(KernelwrightError, match="--samples is for searches"):
        kernelwright.bench("rmsnorm", candidates=tmp_path, samples=2)
    with pytest.raises(KernelwrightError, match="--start is for one task"):
        kernelwright.bench("rmsnorm", start="mine.cpp")
    with pytest.raises(KernelwrightError, match="needs an NVIDIA GPU"):
        kernelwright.bench("rmsnorm", baseline="liger")


@pytest.mark.slow
def test_a_search_for_each_task(tmp_path: Path) -> None:
    said: list[str] = []
    found = kernelwright.bench(
        TASK,
        proposer="templates",
        budget="4evals,60s",
        baseline="eager",
        output=tmp_path / "r.jsonl",
        runs=tmp_path / "runs",
        on_progress=said.append,
    )
    (row,) = found.results.rows
    assert row.outcome is RowOutcome.accepted, row.why
    assert row.cost.evaluations >= 1
    assert f"1/1 {TASK}, sample 0" in said
    again = kernelwright.bench(
        TASK, proposer="templates", budget="4evals,60s", baseline="eager", output=tmp_path / "r.jsonl",
        runs=tmp_path / "runs",
    )  # fmt: skip
    assert again.results.rows == found.results.rows
