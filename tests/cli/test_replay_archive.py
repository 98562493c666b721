"""`replay` and `runs show` on archives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.forgery import forged
from tests.search import toy
from typer.testing import CliRunner

from kernelwright.archives import write_archive
from kernelwright.cli.main import assembled
from kernelwright.judge import certificate
from kernelwright.judge.certificate import CertificateError
from kernelwright.search.core.events import Stopped, StopReason
from kernelwright.search.journal import Journal

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


OBEYED = "\x1b[2J\x1b]0;owned\x07\x9b1m\nTHE SAME [bold]"
TEXTS = (
    *("issued", "environment__judge_version", "candidate__name", "verdict__conditions__device"),
    *("verdict__conditions__sandbox", "verdict__conditions__arena"),
)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_strangers_certificate_says_nothing_that_a_terminal_obeys(tmp_path: Path, options: list[str]) -> None:
    """In the list, and before it is replayed; here it is refused then, since it names a file."""
    hostile = forged(**dict.fromkeys(TEXTS, OBEYED), task__reference="./stranger.py")
    write_archive(tmp_path / "x.tar.xz", {"t/a-1.json": hostile})
    for given in (f"{tmp_path}/x.tar.xz", f"{tmp_path}/x.tar.xz::1"):
        done = CliRunner().invoke(assembled(["replay"]), ["replay", given, *options])
        assert all(letter.isprintable() or letter == "\n" for letter in done.output)
        assert not any(line.startswith("THE SAME") for line in done.output.splitlines())
        assert "::" not in given or "signed by another judge and names ./stranger.py" in str(done.exception)


def test_certificates_with_the_same_short_name_are_all_listed(tmp_path: Path) -> None:
    write_archive(
        tmp_path / "x.tar.xz",
        {"t/a-1.json": forged(), "t/b-1.json": forged(issued="2001-01-01"), "t/c-2.json": forged()},
    )
    found = certificate.load_all(tmp_path / "x.tar.xz")
    assert set(found) == {"t/a-1.json", "t/b-1.json", "2"}
    for name, issued in found.items():
        assert certificate.load(f"{tmp_path}/x.tar.xz::{name}") == issued
    with pytest.raises(CertificateError, match=r"names 2 certificates \(t/a-1.json, t/b-1.json\)"):
        certificate.load(f"{tmp_path}/x.tar.xz::1")


def test_a_run_in_an_archive_is_shown() -> None:
    run = "linear_backward@rows=64,features=128,units=10"
    shown = CliRunner().invoke(assembled(["runs"]), ["runs", "show", f"{ANSWERED}::{run}"])
    assert shown.exit_code == 0 and "linear:backward" in shown.stdout and "--resume" not in shown.stdout


def test_a_strangers_journal_says_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    stopped = Stopped(at=2.0, reason=StopReason.exhausted, detail=OBEYED)
    journal.append([toy.started().model_copy(update={"task_name": OBEYED}), stopped])
    journal.close()
    for command in (
        ["show", str(tmp_path)],
        ["show", str(tmp_path), "--json"],
        ["list", "--runs", str(tmp_path.parent)],
    ):
        done = CliRunner().invoke(assembled(["runs"]), ["runs", *command])
        assert done.exit_code == 0 and "THE SAME" in done.output
        assert all(letter.isprintable() or letter == "\n" for letter in done.output)
        assert not any(line.startswith("THE SAME") for line in done.output.splitlines())
