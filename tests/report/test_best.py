"""The best proved kernel of each task on a machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kernelwright.judge import certificate
from kernelwright.judge.keys import code_hash
from kernelwright.report.best import JudgeMatch, best_of
from kernelwright.search.run import look
from tests import forgery
from tests.report.made import toy_run


def proof(folder: Path) -> str:
    state = look(folder)
    assert state.best is not None
    return state.entries[state.best].final.proof[-1]


def reissue(folder: Path, **changes: object) -> None:
    """The certificate of a run's best with another environment."""
    name = proof(folder)
    content = certificate.read(certificate.kept(name)).model_dump(mode="json", by_alias=True)
    content["environment"] |= changes
    forgery.keep(name, content)


def test_the_highest_claim_of_each_kind(tmp_path: Path) -> None:
    short, long = toy_run(tmp_path, seed=11, budget="8evals"), toy_run(tmp_path, seed=12, budget="60evals")
    found = best_of([tmp_path], None)
    (one,) = found.kernels
    assert found.runs == 2 and one.run == str(long) and one.claim > 1 and one.task == "toy" and one.contract == "cpp"
    assert one.certificates[-1] == proof(long)
    (alone,) = best_of([short.parent], "toy").kernels
    assert alone == one
    assert not best_of([tmp_path], "softmax").kernels and best_of([tmp_path], "softmax").runs == 0


def test_age_and_whether_the_proof_still_stands(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, seed=13, budget="20evals")
    issued = datetime.fromisoformat(certificate.read(certificate.kept(proof(folder))).issued)
    (one,) = best_of([tmp_path], None, issued + timedelta(days=3)).kernels
    assert one.age_days == 3.0 and one.judge is JudgeMatch.other_code and not one.current
    reissue(folder, judge_version="0.0.1")
    (old,) = best_of([tmp_path], None).kernels
    assert old.judge is JudgeMatch.other_version and "judged by version 0.0.1" in old.stale[0]
    reissue(folder, judge_version=one.stale and _version(), judge_code=code_hash())
    (new,) = best_of([tmp_path], None).kernels
    assert new.judge is JudgeMatch.same and not any("judged by" in words for words in new.stale)


def _version() -> str:
    from kernelwright.version import __version__

    return __version__


def test_other_baselines_are_another_kind(tmp_path: Path) -> None:
    first, second = toy_run(tmp_path, seed=14, budget="20evals"), toy_run(tmp_path, seed=15, budget="20evals")
    content = certificate.read(certificate.kept(proof(second))).model_dump(mode="json", by_alias=True)
    content["terms"]["baselines"] = ["eager"]
    forgery.keep(proof(second), content)
    assert {one.run for one in best_of([tmp_path], None).kernels} == {str(first), str(second)}


def test_what_is_not_proved_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    stranger = toy_run(tmp_path, seed=16, budget="20evals", key=forgery.STRANGER)
    broken = tmp_path / "toy-9"
    broken.mkdir()
    (broken / "journal.db").write_bytes(b"not a database, but as long as one" * 40)
    found = best_of([tmp_path], None, datetime.now(UTC))
    assert not found.kernels
    assert [where for where, _ in found.unproved] == [str(stranger)] and "unknown key" in found.unproved[0][1]
    assert [where for where, _ in found.unread] == [str(broken)]


def test_a_strangers_time_is_not_trusted(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, seed=17, budget="20evals")
    content = certificate.read(certificate.kept(proof(folder))).model_dump(mode="json", by_alias=True)
    forgery.keep(proof(folder), {**content, "issued": "yesterday"})
    (one,) = best_of([tmp_path], None).kernels
    assert one.age_days is None


@pytest.mark.parametrize("task", ["toy", None])
def test_an_empty_place_has_none(tmp_path: Path, task: str | None) -> None:
    assert best_of([tmp_path / "nothing"], task).kernels == ()
