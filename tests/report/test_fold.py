"""Runs as views: what a journal and certificates say, and nothing that is hidden."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from kernelwright.judge import certificate
from kernelwright.judge.strangers import trusted
from kernelwright.judge.verdict import Outcome
from kernelwright.report.fold import run_view
from kernelwright.report.html import page
from kernelwright.report.kernel import hidden_claim, kernel_view
from kernelwright.report.markdown import markdown
from kernelwright.report.model import Audience, ProofStanding
from kernelwright.report.subjects import report_view
from kernelwright.search.journal import Journal, JournalError
from kernelwright.search.run import look
from tests import forgery
from tests.report.made import HIDDEN_SIZE, hostile_run, toy_run
from tests.search import toy


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_run(tmp_path_factory.mktemp("runs"))


def plain(value: Any) -> Any:
    """A view as JSON, to look for what must not be in it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [plain(one) for one in value] if isinstance(value, tuple) else value


def test_a_run_whose_certificates_are_here_is_proved(run: Path) -> None:
    view = run_view(run, Audience.author)
    state = look(run)
    assert view.best is not None and state.best is not None and view.search is not None
    assert view.best.standing is ProofStanding.proved and not view.best.why
    assert view.best.score == state.entries[state.best].score and view.best.number == state.best
    assert len(view.search.candidates) == len(state.entries)
    assert view.search.cost.evaluations == state.spent.evaluations
    rejected = [entry for entry in state.entries.values() if entry.standing == "rejected"]
    assert rejected and [row.number for row in view.search.rejected] == [entry.number for entry in rejected]
    assert {row.reason for row in view.search.rejected} == {"wrong"}


def test_the_curve_ends_where_the_run_does(run: Path) -> None:
    view, state = run_view(run, Audience.author), look(run)
    assert view.search is not None and state.best is not None
    curve = view.search.curve
    assert [one.evaluations for one in curve] == sorted(one.evaluations for one in curve)
    assert curve[-1].best_score == state.entries[state.best].score
    assert [one.number for one in curve if one.kind == "final"] and all(
        one.score is None for one in curve if one.kind == "evaluation"
    )


def test_what_torch_carries_out_is_among_the_limits() -> None:
    verdict = toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 2.0, False)])
    seen = verdict.model_copy(update={"library": ("mm", "sort"), "public_library": ("mm",)})
    alone, with_torch = (
        kernel_view(one, None, Audience.author, standing=ProofStanding.claimed, score=2.0).limits
        for one in (verdict, seen)
    )
    assert set(with_torch) - set(alone) == {"It is not all its own: torch carries out mm (library: torch)."}


def test_the_lineage_is_the_bests(run: Path) -> None:
    view, state = run_view(run, Audience.author), look(run)
    assert view.search is not None and state.best is not None
    best = next(one for one in view.search.ancestors if one.number == state.best)
    numbers = {one.number for one in view.search.ancestors}
    assert best.parents and all(parent in numbers for one in view.search.ancestors for parent in one.parents)
    assert best.changes  # genes that differ from its first parent's


def test_the_authors_view_holds_nothing_hidden(tmp_path: Path) -> None:
    """Neither the view nor a page made of it; the auditor's has it, which shows that there is something to find."""
    folder = toy_run(tmp_path)
    state = look(folder)
    assert state.best is not None
    (name,) = state.entries[state.best].final.proof[-1:]
    content = json.loads(certificate.kept(name).read_text())["certificate"]
    for one in content["verdict"]["workloads"]:
        if one["hidden"]:
            one["label"], one["sizes"] = f"n={HIDDEN_SIZE}", {"n": HIDDEN_SIZE}
    content["hidden"] = [{"sizes": [["n", HIDDEN_SIZE]], "dtype": "float32"}]
    forgery.keep(name, content)
    author, auditor = (report_view([str(folder)], tmp_path, audience) for audience in Audience)
    assert str(HIDDEN_SIZE) in json.dumps(plain(auditor)) and str(HIDDEN_SIZE) in page(auditor)
    assert "Auditor" in page(auditor) and "Auditor" in markdown(auditor)
    for text in (json.dumps(plain(author)), page(author), markdown(author)):
        assert str(HIDDEN_SIZE) not in text and "Auditor" not in text
    best = author.runs[0].best
    assert best is not None and best.hidden.judged == 1 and not best.hidden.workloads


def test_the_mean_claim_on_hidden_workloads_follows_from_the_score(run: Path) -> None:
    view = run_view(run, Audience.auditor)
    assert view.best is not None
    (hidden,) = view.best.hidden.workloads
    assert view.best.hidden.claim == pytest.approx(hidden.result.baselines[0].speedup.low)
    assert hidden_claim(None, (), 1) is None and hidden_claim(2.0, (), 0) is None


def test_a_strangers_certificate_is_not_proof(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, seed=5, key=forgery.STRANGER)
    view = run_view(folder, Audience.author)
    assert view.best is not None and view.best.standing is ProofStanding.signed
    assert "unknown key" in view.best.why
    trusted.add(certificate.public_key(forgery.STRANGER), "colleague")
    try:
        again = run_view(folder, Audience.author)
        assert again.best is not None and again.best.standing is ProofStanding.proved
    finally:
        trusted.remove("colleague")


def test_certificates_beside_a_run_speak_for_it(tmp_path: Path) -> None:
    """As an archive of runs has them. Without any, the best is a claim, and the page does not say where we looked."""
    folder = toy_run(tmp_path, seed=6)
    state = look(folder)
    assert state.best is not None
    names = state.entries[state.best].final.proof
    (folder / "certificates").mkdir()
    for name in names:
        shutil.move(certificate.kept(name), folder / "certificates" / f"{name}.json")
    view = run_view(folder, Audience.author)
    assert view.best is not None and view.best.standing is ProofStanding.proved
    shutil.rmtree(folder / "certificates")
    bare = run_view(folder, Audience.author)
    assert bare.best is not None and bare.best.standing is ProofStanding.claimed
    assert bare.best.why == "its certificate is not on this machine" and not bare.best.certificates


def test_an_altered_certificate_proves_nothing(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, seed=7)
    state = look(folder)
    assert state.best is not None
    path = certificate.kept(state.entries[state.best].final.proof[-1])
    path.write_text(path.read_text().replace("float32", "float64"))
    view = run_view(folder, Audience.author)
    assert view.best is not None and view.best.standing is ProofStanding.claimed and "altered" in view.best.why


def test_names_of_certificates_are_not_paths(tmp_path: Path) -> None:
    view = run_view(hostile_run(tmp_path), Audience.author)
    assert view.best is not None and view.best.standing is ProofStanding.claimed
    assert view.best.why == "its certificate is not on this machine"


@pytest.mark.parametrize("value", ["1e999", "NaN", "-1.0", "0.0", "1e300"])
@pytest.mark.parametrize("field", ["estimate", "seconds", "low"])
def test_figures_that_no_judge_gives_are_refused_in_one_line(tmp_path: Path, field: str, value: str) -> None:
    """Where a journal was written by hand."""
    folder = tmp_path / "odd"
    folder.mkdir()
    genes = toy.numbered_genes(1)
    journal = Journal(folder)
    try:
        journal.append([toy.started(), toy.proposed(1, genes)])
    finally:
        journal.close()
    body = re.sub(rf'"{field}":[0-9.e-]+', f'"{field}":{value}', toy.evaluated(1, genes, 2.0).model_dump_json())
    with closing(sqlite3.connect(folder / "journal.db")) as database:
        database.execute("INSERT INTO events (version, kind, body) VALUES (1, 'evaluated', ?)", (body,))
        database.commit()
    with pytest.raises(JournalError, match=r"no judge gives|cannot be understood|is damaged"):
        run_view(folder, Audience.author)


def test_a_run_without_a_best_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    folder.mkdir()
    journal = Journal(folder)
    genes = toy.numbered_genes(1)
    try:
        journal.append([toy.started(), toy.proposed(1, genes), toy.evaluated(1, genes, 1.0, outcome=Outcome.rejected)])
    finally:
        journal.close()
    view = report_view([str(folder)], tmp_path)
    (run,) = view.runs
    assert run.best is None and "none of 1 candidate was accepted" in run.no_best[0]
    assert "none of 1 candidate was accepted" in page(view) and "No best" in markdown(view)
