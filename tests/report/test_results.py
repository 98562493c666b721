"""Result files: shown as claims, hidden workloads only to auditors, nonsense refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelwright.cli.views.search_report import report
from kernelwright.errors import KernelwrightError
from kernelwright.report.html import page
from kernelwright.report.model import Audience, ProofStanding
from kernelwright.report.subjects import report_view
from kernelwright.search.run import look
from tests.report.made import toy_run

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `optimize --json` prints."""
    root = tmp_path_factory.mktemp("runs")
    folder = toy_run(root, seed=21, budget="20evals")
    path = root / "result.json"
    path.write_text(report(look(folder), folder, "optimize").model_dump_json())
    return path


def test_what_optimize_prints_is_a_claim(printed: Path) -> None:
    (run,) = report_view([str(printed)], Path()).runs
    assert run.best is not None and run.best.standing is ProofStanding.claimed and "signed" in run.best.why
    assert run.task == "toy" and run.name == "toy-1" and run.best.score is not None and not run.best.files


@pytest.mark.parametrize("audience", Audience)
def test_hidden_workloads_are_for_auditors(printed: Path, audience: Audience) -> None:
    found = report_view([str(printed)], Path(), audience)
    assert found.shows_hidden is (audience is Audience.auditor)
    assert ("c=1" in page(found)) is (audience is Audience.auditor)


def test_a_benchmark_over_a_suite() -> None:
    """Without verdicts in it: what it claims is told, and that there is no more."""
    found = report_view([str(RESULTS / "optimize_cpu.json")], Path())
    assert len(found.runs) > 10 and all(run.best is None for run in found.runs)
    claimed = [run for run in found.runs if "claimed best" in run.no_best[0]]
    assert len(claimed) > 10 and all(run.no_best[0] for run in found.runs) and claimed[0].no_best[0] in page(found)


def test_a_report_within_notes() -> None:
    (run,) = report_view([str(RESULTS / "optimize_h200.json")], Path()).runs
    assert run.best is not None and "H200" in run.device and run.best.score == pytest.approx(2.5456, abs=1e-3)


def test_figures_that_no_judge_gives_are_refused(printed: Path, tmp_path: Path) -> None:
    content = json.loads(printed.read_text())
    content["best"]["verdict"]["workloads"][0]["baselines"][0]["speedup"]["low"] = -1.0
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps(content))
    with pytest.raises(KernelwrightError, match="no judge gives"):
        report_view([str(odd)], Path())
    del content["task"]
    odd.write_text(json.dumps(content))
    with pytest.raises(KernelwrightError, match="is not a result file that can be read"):
        report_view([str(odd)], Path())
