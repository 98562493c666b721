"""What a report may be asked to be about."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.archives import pack, write_archive
from kernelwright.errors import KernelwrightError
from kernelwright.judge import certificate
from kernelwright.report.model import Audience, ProofStanding
from kernelwright.report.subjects import one_run, report_view
from tests import forgery
from tests.report.made import toy_run

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_runs_by_directory_name_and_folder(tmp_path: Path) -> None:
    first = toy_run(tmp_path, budget="8evals")
    second = toy_run(tmp_path, seed=2, budget="8evals")
    assert one_run(str(first), Path()).name == one_run(first.name, tmp_path).name == first.name
    assert [run.name for run in report_view([str(tmp_path)], Path()).runs] == [first.name, second.name]
    with pytest.raises(KernelwrightError, match=r"holds 2 results \(toy-1, toy-2"):
        one_run(str(tmp_path), Path())


def test_an_archive_of_runs_and_one_of_them(tmp_path: Path) -> None:
    toy_run(tmp_path / "runs", budget="8evals")
    archive = tmp_path / "kept.tar.xz"
    write_archive(archive, pack(tmp_path / "runs"))
    (whole,) = report_view([str(archive)], Path()).runs
    (part,) = report_view([f"{archive}::toy-1"], Path()).runs
    assert whole == part and whole.name == "toy-1" and whole.search is not None
    with pytest.raises(KernelwrightError, match="has no folder"):
        report_view([f"{archive}::other"], Path())


def test_an_archive_of_kernels_and_certificates() -> None:
    found = report_view([f"{RESULTS / 'optimized_cuda.tar.xz'}::rmsnorm@rows=16384,cols=4096"], Path())
    (run,) = found.runs
    assert run.search is None and run.best is not None and run.best.standing is ProofStanding.signed
    assert run.best.hidden.judged == 3 and run.best.score is not None and run.best.score > 1
    (other,) = run.best.further  # the one over compile-best, on public workloads
    assert "over eager, compile-best" in other.how and len(run.best.certificates) == 2


def test_a_certificate_by_file_and_by_name(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(forgery.forged())
    by_file = one_run(str(path), Path())
    forgery.keep("kept-here", forgery.body())
    by_name = one_run("kept-here", Path())
    assert by_file.best is not None and by_file.best.standing is ProofStanding.signed
    assert by_name.best is not None and by_name.best.standing is ProofStanding.proved
    assert by_name.best.certificates[0].replay == "kernelwright replay kept-here"
    assert certificate.load("kept-here").task.name == by_name.task == by_file.task


@pytest.mark.parametrize("audience", Audience)
def test_kernels_of_an_archive_show_hidden_sizes_to_auditors_alone(audience: Audience) -> None:
    found = report_view([str(RESULTS / "optimized_cpu.tar.xz")], Path(), audience)
    kernels = [run.best for run in found.runs if run.best is not None]
    assert len(kernels) == len(found.runs) > 10
    assert all(bool(one.hidden.workloads) is (audience is Audience.auditor) for one in kernels)
    assert all(one.hidden.judged == 3 and not any(w.result.hidden for w in one.public) for one in kernels)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("nowhere", "no such run"),
        ("empty", "neither a run"),
        ("text.json", "is not a certificate"),
        ("none.tar.xz", "No such file"),
    ],
)
def test_bad_input_gets_one_line(tmp_path: Path, given: str, why: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.json").write_text("{}")
    with pytest.raises(KernelwrightError, match=why) as caught:
        report_view([str(tmp_path / given)], tmp_path)
    assert "\n" not in str(caught.value)
