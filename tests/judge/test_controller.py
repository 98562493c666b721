"""The judge from end to end, on small tasks of its own so that it takes seconds."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts.registry import fingerprint
from kernelwright.isolation import start
from kernelwright.isolation.warden import Reply, WardedProcess
from kernelwright.judge.controller import Judge
from kernelwright.judge.cpu import workshop as cpu_workshop
from kernelwright.judge.verdict import (
    BuildEvidence,
    JudgeEvidence,
    MismatchEvidence,
    Outcome,
    OutsideWriteEvidence,
    ProcessEvidence,
    Reason,
    SanitizerEvidence,
    Stage,
    Verdict,
    author_view,
)
from kernelwright.judge.workshop import SanitizerDeadline

pytestmark = pytest.mark.timed

DOUBLE_TASK = '''
"""Twice the input."""
from kernelwright.tasks import Task, tensor

def reference(x):
    return x * 2

task = Task(reference, inputs={"x": tensor("rows", "cols")},
            public=[{"rows": 40, "cols": 50}, {"rows": 3, "cols": 1000}], hidden={"rows": (3, 70), "cols": (20, 2000)})
'''

SCALED_TASK = '''
"""A product with a constant weight, in two dtypes."""
from kernelwright.tasks import Task, normal, tensor

def reference(x, weight):
    return x * weight

task = Task(reference, inputs={"x": tensor("n"), "weight": tensor("n", draw=normal(1.0, 0.2))}, constant=("weight",),
            dtypes=("float32", "bfloat16"), public=[{"n": 1000}], hidden={"n": (100, 3000)})
'''

STEP_TASK = '''
"""Adds to a tensor in place and counts the positive elements."""
import torch
from kernelwright.tasks import Task, tensor

def reference(total, x):
    total += x
    return (x > 0).sum(-1)

task = Task(reference, inputs={"total": tensor("rows", "cols"), "x": tensor("rows", "cols")}, inout=("total",),
            outputs=("count",), public=[{"rows": 10, "cols": 300}], hidden={"rows": (3, 70), "cols": (20, 2000)})
'''

DOUBLE = """
#include <kernelwright.h>
#include <stdlib.h>
void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> out) {
  const long n = x.numel();
  BODY
}
"""
HONEST = "for (long i = 0; i < n; ++i) out.data[i] = 2 * x.data[i];"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tasks")
    texts = {"double": DOUBLE_TASK, "scaled": SCALED_TASK, "step": STEP_TASK}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return {name: str(folder / f"{name}.py") for name in texts}


def doubled(judge: Judge, tasks: dict[str, str], body: str) -> Verdict:
    return judge.judge(tasks["double"], Candidate("cpp", DOUBLE.replace("BODY", body), "double.cpp"))


def test_an_honest_kernel_is_accepted_everywhere(judge: Judge, tasks: dict[str, str]) -> None:
    verdict = doubled(judge, tasks, HONEST)
    assert (verdict.verdict, verdict.stage, verdict.reason) == (Outcome.accepted, Stage.complete, Reason.right)
    assert [w.hidden for w in verdict.workloads] == [False, False, True, True, True]
    for workload in verdict.workloads:
        assert workload.deterministic
        assert workload.trials == 6
        assert workload.seconds is not None and workload.seconds > 0
        assert [b.baseline for b in workload.baselines] == ["eager"]
        assert len(workload.raw_seconds["candidate"]) == 6
    assert verdict.conditions.sandbox in ("full", "landlock", "seccomp", "none")
    assert verdict.conditions.arena == "sealed"


def test_two_are_compared_on_the_hidden_workloads_of_one_and_that_certifies_nothing(
    judge: Judge, tasks: dict[str, str]
) -> None:
    def hidden(body: str, hidden_of: str = "") -> tuple[list[str], str | None]:
        candidate = Candidate("cpp", DOUBLE.replace("BODY", body), "double.cpp")
        settings = replace(judge.settings, hidden_of=hidden_of, certify=True)
        verdict = judge.judge(tasks["double"], candidate, settings=settings)
        return [w.label for w in verdict.workloads if w.hidden], verdict.certificate

    one = Candidate("cpp", DOUBLE.replace("BODY", HONEST), "double.cpp")
    (theirs, certified), (own, _) = hidden(HONEST), hidden(f"{HONEST} ;")
    assert certified is not None and own != theirs
    assert hidden(f"{HONEST} ;", fingerprint(one)) == (theirs, None)


def test_a_comment_gives_no_other_hidden_workloads(judge: Judge, tasks: dict[str, str]) -> None:
    first, again = (doubled(judge, tasks, f"{HONEST}{comment}") for comment in ("", "  // once more"))
    assert first.candidate != again.candidate
    assert [w.label for w in first.workloads] == [w.label for w in again.workloads]


def test_a_wrong_element_is_named(judge: Judge, tasks: dict[str, str]) -> None:
    verdict = doubled(judge, tasks, f"{HONEST} out(2, 7) += 1000.0f;")
    assert verdict.reason is Reason.wrong and verdict.stage is Stage.compare
    assert isinstance(verdict.evidence, MismatchEvidence)
    assert verdict.evidence.index == (2, 7) and verdict.evidence.wrong == 1


def test_unwritten_elements_are_counted(judge: Judge, tasks: dict[str, str]) -> None:
    verdict = doubled(judge, tasks, "for (long i = 0; i + 5 < n; ++i) out.data[i] = 2 * x.data[i];")
    assert verdict.reason is Reason.unwritten
    assert isinstance(verdict.evidence, MismatchEvidence) and verdict.evidence.unwritten == 5


def test_a_write_behind_the_end_is_seen_though_every_value_is_right(judge: Judge, tasks: dict[str, str]) -> None:
    verdict = doubled(judge, tasks, f"{HONEST} out.data[n] = 0;")
    assert verdict.reason is Reason.unsafe and isinstance(verdict.evidence, SanitizerEvidence)
    candidate = Candidate("cpp", DOUBLE.replace("BODY", f"{HONEST} out.data[n] = 0;"), "double.cpp")
    verdict = judge.judge(tasks["double"], candidate, settings=replace(judge.settings, safety=False))
    assert verdict.reason is Reason.wrote_outside
    assert isinstance(verdict.evidence, OutsideWriteEvidence) and "behind" in verdict.evidence.side


def test_a_fault_in_its_own_memory_is_named_with_its_line(judge: Judge, tasks: dict[str, str]) -> None:
    body = f"{HONEST}\n  float* own = (float*)malloc(4 * n);\n  own[n] = 1;\n  out.data[0] += own[n] - 1; free(own);"
    verdict = doubled(judge, tasks, body)
    assert verdict.reason is Reason.unsafe and verdict.stage is Stage.safety
    assert isinstance(verdict.evidence, SanitizerEvidence)
    text = "\n".join(verdict.evidence.lines)
    assert "heap-buffer-overflow" in text and "kernel.cpp:8" in text


SLOW_UNDER_SANITIZERS = """
#if defined(__SANITIZE_ADDRESS__)
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(6);
       std::chrono::steady_clock::now() < end;) {}
#endif
"""


@pytest.mark.slow
@pytest.mark.parametrize(("slowdown", "outcome"), [(1e9, Outcome.accepted), (1.0, Outcome.undecided)])
def test_slow_sanitizers_get_the_time_that_the_kernel_s_own_allows(
    judge: Judge, tasks: dict[str, str], monkeypatch: pytest.MonkeyPatch, slowdown: float, outcome: Outcome
) -> None:
    monkeypatch.setattr(cpu_workshop, "SANITIZER_DEADLINE", SanitizerDeadline(5.0, slowdown, 300.0))
    source = "#include <chrono>\n" + DOUBLE.replace("BODY", f"{SLOW_UNDER_SANITIZERS}{HONEST}")
    verdict = judge.judge(tasks["double"], Candidate("cpp", source, "double.cpp"))
    assert verdict.verdict is outcome and len(verdict.workloads) == 5
    if outcome is Outcome.undecided:
        assert verdict.stage is Stage.safety and "asan+ubsan did not finish within 5 s" in str(verdict.evidence)


def test_a_crash_and_an_early_end_are_told_apart(judge: Judge, tasks: dict[str, str]) -> None:
    assert doubled(judge, tasks, "_Exit(0);").reason is Reason.ended_itself
    crashed = doubled(judge, tasks, "volatile float* p = out.data - (1 << 20); *p = 1;")
    assert crashed.reason in (Reason.unsafe, Reason.crashed)
    assert isinstance(crashed.evidence, SanitizerEvidence | ProcessEvidence)


def test_a_runner_that_was_killed_from_outside_leaves_no_verdict(
    judge: Judge, tasks: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An honest kernel was once rejected because another process had used up the machine's memory."""

    class Killed(WardedProcess):
        calls = 0

        def trial(self, op: str, deadline: float) -> Reply:
            self.calls += 1
            if self.calls == 4:
                warden = self._process.pid
                os.kill(int(Path(f"/proc/{warden}/task/{warden}/children").read_text().split()[-1]), signal.SIGKILL)
            return super().trial(op, deadline)

    monkeypatch.setattr(start, "WardedProcess", Killed)
    verdict = doubled(judge, tasks, HONEST)
    assert (verdict.verdict, verdict.reason) == (Outcome.undecided, Reason.judge_failed)
    assert isinstance(verdict.evidence, JudgeEvidence) and "memory ended" in verdict.evidence.message
    monkeypatch.undo()
    assert doubled(judge, tasks, HONEST).verdict is Outcome.accepted


def test_what_does_not_build_says_why(judge: Judge, tasks: dict[str, str]) -> None:
    verdict = doubled(judge, tasks, "undeclared();")
    assert (verdict.stage, verdict.reason) == (Stage.build, Reason.does_not_build)
    assert isinstance(verdict.evidence, BuildEvidence) and any("undeclared" in line for line in verdict.evidence.lines)


def test_what_works_on_public_shapes_only_fails_without_telling_where(judge: Judge, tasks: dict[str, str]) -> None:
    body = "for (long i = 0; i < n; ++i) out.data[i] = (x.size(1) == 50 || x.size(1) == 1000 ? 2 : 3) * x.data[i];"
    verdict = doubled(judge, tasks, body)
    assert verdict.verdict is Outcome.rejected and verdict.failed_on_hidden
    seen = author_view(verdict)
    assert seen.evidence is None and seen.hidden.failed
    assert all(not workload.hidden for workload in seen.workloads)


def test_a_kernel_that_is_not_deterministic_is_told(judge: Judge, tasks: dict[str, str]) -> None:
    body = f"static int calls = 0; {HONEST} out.data[0] *= 1.0f + 1e-7f * (++calls % 2);"
    verdict = doubled(judge, tasks, body)
    assert verdict.verdict is Outcome.accepted
    assert not all(workload.deterministic for workload in verdict.workloads)


def test_constants_are_prepared_once_and_dtypes_are_built_each(judge: Judge, tasks: dict[str, str]) -> None:
    source = """
    #include <kernelwright.h>
    #include <vector>
    static std::vector<float> kept;
    template <class T> void prepare(kw::Tensor<const T, 1> weight) {
      kept.assign(weight.data, weight.data + weight.numel());
    }
    template <class T> void kernel(kw::Tensor<const T, 1> x, kw::Tensor<const T, 1> weight, kw::Tensor<T, 1> out) {
      for (long i = 0; i < x.numel(); ++i) out.data[i] = static_cast<float>(x.data[i]) * kept[i];
    }"""
    verdict = judge.judge(tasks["scaled"], Candidate("cpp", source))
    assert verdict.verdict is Outcome.accepted, verdict.evidence
    assert {w.dtype for w in verdict.workloads} == {"float32", "bfloat16"}
    assert all(w.prepare_seconds is not None for w in verdict.workloads)


@pytest.mark.parametrize(("update", "accepted"), [("+=", True), ("=", False)])
def test_tensors_changed_in_place_are_compared(
    judge: Judge, tasks: dict[str, str], update: str, accepted: bool
) -> None:
    source = f"""
    #include <kernelwright.h>
    void kernel(kw::Tensor<float, 2> total, kw::Tensor<const float, 2> x, kw::Tensor<std::int64_t, 1> count) {{
      for (long r = 0; r < x.size(0); ++r) {{
        count(r) = 0;
        for (long c = 0; c < x.size(1); ++c) {{ total(r, c) {update} x(r, c); count(r) += x(r, c) > 0; }}
      }}
    }}"""
    verdict = judge.judge(tasks["step"], Candidate("cpp", source))
    assert (verdict.verdict is Outcome.accepted) == accepted, verdict.evidence


def test_nothing_is_left_behind(judge: Judge, tasks: dict[str, str]) -> None:
    before = _descriptors()
    for body in (HONEST, "_Exit(0);", "abort();"):
        doubled(judge, tasks, body)
    assert _descriptors() <= before


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
