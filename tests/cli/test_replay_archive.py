"""`replay` and `runs show` on archives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.cli.main import assembled
from kernelwright.judge import certificate
from kernelwright.judge.certificate import CertificateError

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
CUDA = RESULTS / "optimized_cuda.tar.xz"
ANSWERED = RESULTS / "answered.tar.xz"


def test_an_archive_alone_lists_its_certificates() -> None:
    done = CliRunner().invoke(assembled(["replay"]), ["replay", str(CUDA), "--json"])
    listed = json.loads(done.stdout)["certificates"]
    assert done.exit_code == 0 and {one["name"] for one in listed} == set(certificate.load_all(CUDA))
    shown = CliRunner().invoke(assembled(["replay"]), ["replay", str(CUDA)])
    assert shown.exit_code == 0 and all(one["name"] in shown.stdout for one in listed)


def test_a_certificate_is_found_by_any_of_its_names() -> None:
    (name, issued), *_ = certificate.load_all(CUDA).items()
    folder = issued.task.name.replace(":", "_")
    stem = f"{issued.task.name.replace(':', '-')}-{issued.candidate.id}-{name}"
    for given in (name, stem, f"{folder}/{stem}", f"{folder}/{stem}.json"):
        assert certificate.load(f"{CUDA}::{given}") == issued


@pytest.mark.parametrize(("name", "why"), [("rmsnorm", "names 2 certificates"), ("nothing", "has no certificate")])
def test_a_name_that_is_not_one_certificates_is_refused(name: str, why: str) -> None:
    with pytest.raises(CertificateError, match=why):
        certificate.load(f"{CUDA}::{name}")


def test_a_run_in_an_archive_is_shown() -> None:
    run = "linear_backward@rows=64,features=128,units=10"
    shown = CliRunner().invoke(assembled(["runs"]), ["runs", "show", f"{ANSWERED}::{run}"])
    assert shown.exit_code == 0 and "linear:backward" in shown.stdout and "--resume" not in shown.stdout
