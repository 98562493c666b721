"""What proves a best: the certificates of the final that it won, signed by a trusted key and about this candidate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright.cli.views.search_report import BestReport, report
from kernelwright.contracts import Candidate
from kernelwright.judge import certificate
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.strangers import trusted
from kernelwright.judge.verdict import Outcome, SpeedStatus, Verdict
from kernelwright.proposers.model import Proposal
from kernelwright.search.core.events import FinalHeld
from kernelwright.search.core.state import State
from kernelwright.search.journal import Journal
from kernelwright.search.run import look
from kernelwright.search.summary import summary
from tests import forgery
from tests.search import toy

START = toy.candidate_of((1,) * 8)
OTHER = toy.candidate_of((1,) * 7 + (2,))
UNDECIDED = 3  # judgings of the first final, in which a hidden workload stays too noisy
DIGEST = "d" * 64
PROVING = "final-3"


class Calming:
    """The first final is noisy on the hidden workload and seems twice as fast; the second one tells the truth."""

    def __init__(self) -> None:
        self.issued: dict[str, Verdict] = {}

    def expect(self, *_: object) -> None:
        """There is nothing to build."""

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
        forgery.keep(name, forgery.of_final(found, candidate, "toy", DIGEST))
        return found


@pytest.fixture
def searched(tmp_path: Path) -> State:
    return toy.search(
        tmp_path,
        judge=Calming(),  # type: ignore[arg-type]
        starts=[Proposal(START, "start")],
        budget="40evals",
        plateau=3,
        task_digest=DIGEST,
    )


def best_of(state: State, folder: Path) -> BestReport:
    found = report(state, folder / "toy-1", "runs show").best
    assert found is not None
    return found


def test_an_undecided_final_of_before_proves_nothing(searched: State, tmp_path: Path) -> None:
    best = best_of(searched, tmp_path)
    assert best.verdict is not None and best.proved and not best.unproved
    assert best.certificates == (PROVING,) and best.score == pytest.approx(0.98)
    speeds = [result.best_baseline.speedup.low for result in best.verdict.workloads if result.best_baseline]
    assert speeds == pytest.approx([0.98, 0.98])
    assert f"- certificates: {PROVING}\n" in summary(searched) and "- a: 0.98× over eager" in summary(searched)


def _elsewhere(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "task": {**content["task"], "digest": "e" * 64}}


def _of_another(content: dict[str, Any]) -> dict[str, Any]:
    return forgery.of_final(Verdict.model_validate({**content["verdict"], "candidate": OTHER.id}), OTHER, "toy", DIGEST)


def _faster(content: dict[str, Any]) -> dict[str, Any]:
    verdict = toy.verdict_of(START, [("a", 3.0, False), ("c", 3.0, True)])
    return forgery.of_final(verdict, START, "toy", DIGEST)


def _rejected(content: dict[str, Any]) -> dict[str, Any]:
    verdict = toy.verdict_of(START, [], outcome=Outcome.rejected)
    return forgery.of_final(verdict, START, "toy", DIGEST)


@pytest.mark.parametrize(
    ("change", "key", "why"),
    [
        (lambda content: content, forgery.STRANGER, "signed by an unknown key"),
        (_of_another, None, "is about another candidate"),
        (_elsewhere, None, "is about another task"),
        (_faster, None, "its certificates prove 2.94×, and the journal says otherwise"),
        (_rejected, None, "says that the candidate is rejected"),
        (
            lambda content: {**content, "terms": {**content["terms"], "public_only": True}},
            None,
            "no certificate of its",
        ),
    ],
)
def test_a_certificate_that_does_not_fit_proves_nothing(
    searched: State, tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], key: bytes | None, why: str
) -> None:
    """Threat 76: a journal names a certificate of a stranger, of another candidate, of another task or score."""
    honest = forgery.of_final(toy.verdict_of(START, [("a", 1.0, False), ("c", 1.0, True)]), START, "toy", DIGEST)
    forgery.keep(PROVING, change(honest), key)
    best = best_of(searched, tmp_path)
    assert not best.proved and why in best.unproved and not best.certificates
    assert best.verdict is not None and best.verdict.view == "author"


def test_a_certificate_of_a_trusted_key_proves(searched: State, tmp_path: Path) -> None:
    honest = forgery.of_final(toy.verdict_of(START, [("a", 1.0, False), ("c", 1.0, True)]), START, "toy", DIGEST)
    forgery.keep(PROVING, honest, forgery.STRANGER)
    assert not best_of(searched, tmp_path).proved
    trusted.add(certificate.public_key(forgery.STRANGER), "colleague")
    try:
        assert best_of(searched, tmp_path).proved
    finally:
        trusted.remove("colleague")


@pytest.mark.parametrize("edit", ["score", "proof"])
def test_an_edited_journal_proves_nothing(searched: State, tmp_path: Path, edit: str) -> None:
    """Threat 76: a score beyond what the certificates say, and a proof that is a path to a file of the stranger's."""
    stranger = tmp_path / "proof.json"
    stranger.write_bytes(
        forgery.sign(forgery.of_final(toy.verdict_of(START, [("a", 9.0, False)]), START, "toy", DIGEST))
    )
    assert searched.best is not None
    held = FinalHeld(
        at=2e9,
        challenger=searched.best,
        best=None,
        verdict=searched.entries[searched.best].verdict,  # type: ignore[arg-type]
        estimate=9.0,
        score=9.0,
        won=True,
        why="",
        certificates=(PROVING,) if edit == "score" else (str(stranger),),
        judgings=1,
        seconds=1.0,
    )
    journal = Journal(tmp_path / "toy-1")
    journal.append([held])
    journal.close()
    best = best_of(look(tmp_path / "toy-1"), tmp_path)
    assert best.score == 9.0 and not best.proved
    assert ("the journal says otherwise" if edit == "score" else "is not the name of a certificate") in best.unproved
