"""`replay --all`: every certificate of files, archives and folders, in one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import forgery
from tests.forgery import forged
from typer.testing import CliRunner, Result

from kernelwright.archives import write_archive
from kernelwright.cli.main import assembled
from kernelwright.cli.views.replays import ReplayedCertificate, ReplayStanding, exit_code
from kernelwright.errors import CannotDecide
from kernelwright.judge import certificate
from kernelwright.judge import replay as replays
from kernelwright.judge.certificate import CertificateError
from kernelwright.judge.settings import Settings
from kernelwright.judge.verdict import Outcome, Reason, Verdict
from kernelwright.tasks.loading import hash_of
from kernelwright.tasks.resolve import BUILTIN


class PlayedJudge:
    """Answers what a test says; counts how often one is started."""

    started = 0
    answer: Callable[[Verdict], Verdict] = staticmethod(lambda verdict: verdict)

    def __init__(self, settings: Settings) -> None:
        PlayedJudge.started += 1

    def open(self, task: str) -> Any:
        path = BUILTIN / f"{task.partition('@')[0].partition(':')[0]}.py"
        return type("Opened", (), {"sources": ((str(path), hash_of(path)),), "name": task})

    def judge(self, task: str, candidate: Any, progress: Any, settings: Settings) -> Verdict:
        return PlayedJudge.answer(certificate.parse(forged(), "then").verdict)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "Judge", PlayedJudge)
    monkeypatch.setattr(PlayedJudge, "started", 0)
    monkeypatch.setattr(PlayedJudge, "answer", staticmethod(lambda verdict: verdict))


def replay_all(*given: object) -> Result:
    return CliRunner().invoke(assembled(["replay"]), ["replay", "--all", *map(str, given)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three that can be replayed, one of them twice, one for a GPU, one altered; a link, and files of other kinds."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a-1.json").write_bytes(forged())
    (tmp_path / "again-1.json").write_bytes(forged())
    write_archive(
        tmp_path / "x.tar.xz",
        {"t/b-2.json": forged(issued="2001-01-01"), "t/c-3.json": forged(terms__safety=False), "t/notes.json": b"{}"},
    )
    (tmp_path / "gpu-4.json").write_bytes(forged(terms__device="cuda:7"))
    (tmp_path / "altered-5.json").write_bytes(forged().replace(b"maxpool2d", b"maxpool3d"))
    (tmp_path / "other.json").write_text("[]")
    (tmp_path / "link.json").symlink_to(tmp_path / "gpu-4.json")
    return tmp_path


def test_a_folder_is_replayed_with_one_judge(folder: Path) -> None:
    done = replay_all(folder, "--json")
    told = {one["name"].rpartition("-")[2].rpartition(":")[2]: one for one in json.loads(done.stdout)["certificates"]}
    standing = {name: one["standing"] for name, one in told.items()}
    assert standing == {"1.json": "same", "2": "same", "3": "same", "4.json": "skipped", "5.json": "refused"}
    assert PlayedJudge.started == 1
    assert told["3"]["replay"]["counts"] is False and "no sanitizers" in told["3"]["replay"]["below"]
    assert "cuda" in told["4.json"]["why"] and "altered" in told["5.json"]["why"]
    assert done.exit_code == 2  # one was refused


def test_the_table_says_what_was_and_what_is(folder: Path) -> None:
    shown = replay_all(folder).stdout
    for words in ("maxpool2d", "then", "now", "same?", "artefact", "3 of 3 the same; 2 not replayed", "does not count"):
        assert words in shown
    assert "skipped" in shown and "refused" in shown and "judged on less than today's standard" in shown


def test_speeds_of_another_device_are_said_to_be_claims(tmp_path: Path) -> None:
    """Which device it was is the signer's word, too."""
    (tmp_path / "a-1.json").write_bytes(forged(verdict__conditions__device="cpu: another"))
    assert "speeds not compared" in " ".join(replay_all(tmp_path).stdout.split())


def test_no_text_is_long_enough_to_begin_a_line_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "a-1.json"
    padded = f"cpu{' ' * 200}THE SAME  accepted{chr(0x2800) * 90}signed by alice (trusted)"
    file.write_bytes(forged(verdict__conditions__device=padded, issued=padded, verdict__conditions__compiler=padded))
    shown = CliRunner().invoke(assembled(["replay"]), ["replay", str(file)]).stdout
    assert "   " not in shown and chr(0x2800) not in shown and "alice" not in shown


def test_only_when_all_are_the_same_it_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a-1.json"
    file.write_bytes(forged())
    assert replay_all(file).exit_code == 0

    def rejecting(verdict: Verdict) -> Verdict:
        return verdict.model_copy(update={"verdict": Outcome.rejected, "reason": Reason.imprecise})

    monkeypatch.setattr(PlayedJudge, "answer", staticmethod(rejecting))
    done = replay_all(file)
    assert done.exit_code == 1 and "rejected now: imprecise" in done.stdout and "another version" in done.stdout

    def failing(verdict: Verdict) -> Verdict:
        return verdict.model_copy(update={"verdict": Outcome.undecided, "reason": Reason.judge_failed})

    monkeypatch.setattr(PlayedJudge, "answer", staticmethod(failing))
    assert replay_all(file).exit_code == 3

    def without_judge(verdict: Verdict) -> Verdict:
        raise CannotDecide("no room")

    monkeypatch.setattr(PlayedJudge, "answer", staticmethod(without_judge))
    done = replay_all(file)
    assert done.exit_code == 2 and "no room" in done.stdout


def test_an_interrupted_command_shows_what_was_replayed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []

    def interrupted(verdict: Verdict) -> Verdict:
        judged.append(1)
        if len(judged) == 2:
            raise KeyboardInterrupt
        return verdict

    monkeypatch.setattr(PlayedJudge, "answer", staticmethod(interrupted))
    done = replay_all(folder, "--json")
    told = json.loads(done.stdout)["certificates"]
    assert len(judged) == 2 and isinstance(done.exception, CannotDecide)
    assert [one["standing"] for one in told].count("same") == 1
    assert [one["why"] for one in told].count("interrupted") == 2


def test_what_holds_no_certificate_is_said(tmp_path: Path) -> None:
    assert isinstance(replay_all(tmp_path).exception, CertificateError)
    one = CliRunner().invoke(assembled(["replay"]), ["replay", "a", "b"])
    assert "--all" in str(one.exception)
    assert "one certificate" in str(replay_all(tmp_path, "--task", "x.py").exception)


def test_all_that_are_committed_are_found() -> None:
    found = certificate.collect([str(forgery.RESULTS)])
    assert len(found) == sum(len(certificate.load_all(path)) for path in forgery.RESULTS.glob("*.tar.xz"))


@pytest.mark.parametrize(
    ("standings", "code"),
    [
        ([ReplayStanding.same, ReplayStanding.skipped], 0),
        ([ReplayStanding.skipped], 2),
        ([ReplayStanding.same, ReplayStanding.refused], 2),
        ([ReplayStanding.same, ReplayStanding.undecided, ReplayStanding.refused], 3),
        ([ReplayStanding.not_the_same, ReplayStanding.undecided], 1),
    ],
)
def test_exit_codes(standings: list[ReplayStanding], code: int) -> None:
    assert exit_code([ReplayedCertificate(name="x", standing=one) for one in standings]) == code
