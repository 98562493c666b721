"""What proves a best: the certificates of the final that it won."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelwright.cli.views.search_report import report
from kernelwright.contracts import Candidate
from kernelwright.judge import certificate as certificates
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.verdict import Outcome, SpeedStatus, Verdict
from kernelwright.proposers.model import Proposal
from kernelwright.search.summary import summary
from tests.search import toy

START = toy.candidate_of((1,) * 8)
UNDECIDED = 3  # judgings of the first final, in which a hidden workload stays too noisy


class Calming:
    """The first final is noisy on the hidden workload and seems twice as fast; the second one tells the truth."""

    def __init__(self) -> None:
        self.issued: dict[str, Verdict] = {}

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        if candidate.id != START.id:
            return toy.verdict_of(candidate, [], outcome=Outcome.rejected)
        if settings.public_only:
            return toy.verdict_of(candidate, [("a", 1.0, False)])
        noisy, name = len(self.issued) < UNDECIDED, f"final-{len(self.issued)}"
        speed = 2.0 if noisy else 1.0
        found = toy.verdict_of(candidate, [("a", speed, False), ("c", speed, True)], certificate=name)
        if noisy:
            public, hidden = found.workloads
            hidden = hidden.model_copy(update={"speed": SpeedStatus.noisy})
            found = found.model_copy(update={"workloads": (public, hidden)})
        self.issued[name] = found
        return found


def test_an_undecided_final_of_before_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Calming()
    full = SimpleNamespace(public_only=False, safety=True)
    monkeypatch.setattr(certificates, "find", lambda name: name)
    monkeypatch.setattr(certificates, "read", lambda name: SimpleNamespace(settings=full, verdict=judge.issued[name]))
    state = toy.search(tmp_path, judge=judge, starts=[Proposal(START, "start")], budget="40evals", plateau=3)  # type: ignore[arg-type]
    best = report(state, tmp_path / "toy-1", "runs show").best
    assert best is not None and best.verdict is not None
    assert best.certificates == ("final-3",) and best.score == pytest.approx(0.98)
    speeds = [result.best_baseline.speedup.low for result in best.verdict.workloads if result.best_baseline]
    assert speeds == pytest.approx([0.98, 0.98])
    assert "- certificates: final-3\n" in summary(state) and "- a: 0.98× over eager" in summary(state)
