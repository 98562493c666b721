"""Certificates: signed, kept from authors, refused when altered, and replayed to the same verdict."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.contracts import Candidate
from kernelwright.errors import KernelwrightError
from kernelwright.judge import certificate
from kernelwright.judge import replay as replay_module
from kernelwright.judge.certificate import Certificate, CertificateError
from kernelwright.judge.controller import Judge
from kernelwright.judge.evaluation import Evaluation
from kernelwright.judge.keys import candidate_key
from kernelwright.judge.oracle_client import OpenTask
from kernelwright.judge.replay import compare, replay
from kernelwright.judge.settings import ReplaySettings, Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import IntervalValue, Outcome, Reason, SpeedStatus, author_view
from kernelwright.judge.workshop import InspectionPlan, Workshop
from kernelwright.tasks.loading import digest, hash_of
from kernelwright.tasks.model import Workload
from kernelwright.tasks.resolve import BUILTIN

pytestmark = pytest.mark.timed

TASK = '''
"""Twice the input."""
from kernelwright.tasks import Task, tensor

def reference(x):
    return x * 2

task = Task(reference, inputs={"x": tensor("rows", "cols")},
            public=[{"rows": 40, "cols": 50}], hidden={"rows": (3, 70), "cols": (20, 2000)})
'''
SOURCE = """
#include <kernelwright.h>
void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> out) {
  for (long i = 0; i < x.numel(); ++i) out.data[i] = BODY;
}
"""
HONEST = SOURCE.replace("BODY", "2 * x.data[i]")
RARELY_WRONG = SOURCE.replace("BODY", "x.data[i] > 30 ? 60 : 2 * x.data[i]")


@dataclass(frozen=True)
class Case:
    accepted: Certificate
    rejected: Certificate
    file: Path
    opened: OpenTask


@pytest.fixture(scope="module")
def case(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Case:
    task = tmp_path_factory.mktemp("task") / "twice.py"
    task.write_text(TASK)
    compared = Settings(baselines=("eager",), effort=Sampling(8, 8), certify=True)
    names = [
        judge.judge(str(task), Candidate("cpp", source, f"{name}.cpp"), settings=settings).certificate
        for name, source, settings in (
            ("honest", HONEST, compared),
            ("rare", RARELY_WRONG, replace(compared, baselines=())),  # there is no baseline to start in a replay
        )
    ]
    files = [certificate.find(name or "") for name in names]
    accepted, rejected = map(certificate.read, files)
    return Case(accepted, rejected, files[0], judge.open(str(task)))


def test_a_certificate_holds_what_a_replay_needs(case: Case) -> None:
    issued = case.accepted
    assert issued.verdict.verdict is Outcome.accepted and issued.source.source == HONEST
    assert len(issued.hidden) == 3 and issued.settings.baselines == ("eager",)
    assert all(result.raw_seconds["candidate"] for result in issued.verdict.workloads)
    assert (issued.verdict.conditions.sandbox, issued.verdict.conditions.arena) != ("", "")
    assert issued.verdict.artefact and len(issued.environment.judge_code) == 64


def test_it_is_kept_where_only_its_owner_reads(case: Case) -> None:
    assert stat.S_IMODE(case.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(case.file.parent.stat().st_mode) == 0o700
    assert case.file.parent.name == "certificates" and case.file.parent.parent.name == "state"


def test_the_authors_view_has_its_name_and_nothing_of_it(case: Case) -> None:
    shown = author_view(case.accepted.verdict).model_dump_json()
    assert case.accepted.subkey not in shown
    for hidden in case.accepted.hidden:
        assert json.dumps(dict(hidden.sizes), separators=(",", ":")) not in shown


def test_subkeys_differ_by_task_and_candidate() -> None:
    keys = {candidate_key(b"k" * 32, d, t, c) for d in ("1", "2") for t in ("a", "b") for c in ("x", "y")}
    assert len(keys) == 8 and b"k" * 32 not in keys


def test_an_accepted_one_replays_to_the_same(case: Case) -> None:
    outcome = replay(case.accepted)
    assert outcome.same is not False and outcome.verdict.verdict is Outcome.accepted
    assert outcome.artefact == "the same bytes" and outcome.device == "the same class"
    judged = [(result.label, result.hidden) for result in outcome.verdict.workloads]
    assert judged == [(result.label, result.hidden) for result in case.accepted.verdict.workloads]


def test_a_rejected_one_fails_again_on_the_values_on_which_it_failed(case: Case, tmp_path: Path) -> None:
    """Wherever its task is now."""
    moved = tmp_path / "twice.py"
    moved.write_text(TASK)
    assert case.rejected.failure is not None and case.rejected.verdict.reason in (Reason.wrong, Reason.imprecise)
    outcome = replay(case.rejected, str(moved))
    assert outcome.same is True
    then, now = case.rejected.verdict.evidence, outcome.verdict.evidence
    assert then is not None and now is not None
    assert now.model_dump() == {**then.model_dump(), "trial": 0}


def test_a_replay_begins_where_the_candidate_failed(case: Case) -> None:
    """Before that, it would be given other values by other steps, and might fail for another reason."""
    opened, nobody = case.opened, cast(Workshop, SimpleNamespace())
    failed_on = f"timed {opened.public[0].workload.label}"
    for replaying, first in ((None, "sanitized"), (ReplaySettings(b"s", (), failed_on=failed_on), "timed")):
        judging = Evaluation(nobody, Settings(replaying=replaying), opened, case.rejected.source, b"s")
        judging.inspection_plan = InspectionPlan("asan+ubsan", opened.public)
        steps = judging.steps(opened.public)
        assert [step.purpose for step in steps] == [first, "timed" if first == "sanitized" else "sanitized"]


def test_an_edited_task_is_refused(case: Case, tmp_path: Path) -> None:
    other = tmp_path / "twice.py"
    other.write_text(TASK.replace("x * 2", "x * 3"))
    with pytest.raises(CertificateError, match="not the task of the certificate"):
        replay(case.rejected, str(other))


def test_another_judge_does_not_choose_the_file_that_is_run(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open a task is to run its file, so the certificate's word is not enough, however right its digest is."""
    monkeypatch.setattr(replay_module, "Judge", _nothing_starts)
    foreign = case.accepted.model_copy(update={"judge": certificate.public_key(b"x" * 32)})
    for reference in (case.accepted.task.reference, "./rmsnorm.py:backward", "rmsnorm.py", str(tmp_path / "rmsnorm")):
        named = foreign.model_copy(update={"task": foreign.task.model_copy(update={"reference": reference})})
        with pytest.raises(CertificateError, match=r"another judge and names .*; give the file that you trust"):
            replay(named)
    for reference in ("rmsnorm", "rmsnorm:backward@rows=64"):
        task = foreign.task.model_copy(update={"reference": reference, "files": (), "digest": RMSNORM})
        with pytest.raises(Started):
            said = foreign.verdict.model_copy(update={"workloads": ()})
            replay(foreign.model_copy(update={"task": task, "hidden": (), "verdict": said}))
    for issued, task in ((foreign, case.accepted.task.reference), (case.accepted, None)):
        with pytest.raises(Started):
            replay(issued, task)


RMSNORM = digest((("", hash_of(BUILTIN / "rmsnorm.py")),))


class Started(Exception):  # noqa: N818 - it names an outcome
    pass


def _nothing_starts(*_: object) -> None:
    raise Started


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"threads": 10**6}, "threads"),
        ({"threads": 10**400}, "threads"),
        ({"effort": Sampling(least=10**9)}, "blocks"),
        ({"effort": Sampling(least=-1)}, "blocks"),
        ({"effort": Sampling(most=10**9)}, "blocks"),
        ({"effort": Sampling(step=0)}, "blocks between"),
        ({"effort": Sampling(seconds=1e9)}, "seconds"),
        ({"effort": Sampling(seconds=float("nan"))}, "seconds"),
        ({"baselines": ("eager",) * 1000}, "baselines"),
        ({"baselines": ("nothing",)}, "baselines"),
    ],
)
def test_terms_that_no_judge_has_are_refused_before_anything_starts(
    case: Case, changes: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_module, "Judge", _nothing_starts)
    absurd = case.accepted.model_copy(update={"settings": case.accepted.settings.model_copy(update=changes)})
    with pytest.raises(CertificateError, match=f"terms are not those of a judge .{said}"):
        replay(absurd)


def test_too_many_workloads_and_a_seed_too_large_are_refused(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "Judge", _nothing_starts)
    assert case.rejected.failure is not None
    for absurd in (
        case.accepted.model_copy(update={"hidden": case.accepted.hidden[:1] * 1000}),
        case.accepted.model_copy(update={"lighter": case.accepted.hidden[:1] * 1000}),
        case.rejected.model_copy(update={"failure": case.rejected.failure.model_copy(update={"seed": 1 << 70})}),
    ):
        with pytest.raises(CertificateError, match="terms are not those of a judge"):
            replay(absurd)


def test_a_workload_outside_of_the_tasks_ranges_is_refused(case: Case, judge: Judge) -> None:
    """By the oracle, which alone knows them, before anything is built or reserved."""
    for sizes in ((("rows", 71), ("cols", 50)), (("rows", 40),), (("rows", 40), ("cols", 50), ("cols", 51))):
        outside = ReplaySettings(b"s" * 32, (Workload(sizes, hidden=True),))
        with pytest.raises(KernelwrightError, match=r"(which|than) the task declares"):
            judge.judge(
                case.accepted.task.reference, case.accepted.source, settings=Settings(baselines=(), replaying=outside)
            )


def test_same_means_overlapping_intervals_on_the_same_class_of_device(case: Case) -> None:
    then = case.accepted
    slower = _with_speedup(then, 1.0, 1.1)
    faster = _with_speedup(then, 2.0, 2.1)
    assert compare(slower, slower.verdict).same is True
    assert compare(slower, faster.verdict).same is False
    assert compare(slower, _with_speedup(then, 1.12, 1.2).verdict).same is True  # within what a CPU's baseline may show
    assert compare(slower, _with_speedup(then, 1.2, 1.3).verdict).same is False
    moved = faster.verdict.conditions.model_copy(update={"device": "cpu: another"})
    elsewhere = compare(slower, faster.verdict.model_copy(update={"conditions": moved}))
    assert elsewhere.same is True and not elsewhere.speeds and elsewhere.not_compared


def _with_speedup(issued: Certificate, low: float, high: float) -> Certificate:
    results = tuple(
        result.model_copy(
            update={
                "speed": SpeedStatus.measured,
                "baselines": tuple(
                    b.model_copy(update={"speedup": IntervalValue(low=low, mid=low, high=high)})
                    for b in result.baselines
                ),
            }
        )
        for result in issued.verdict.workloads
    )
    return issued.model_copy(update={"verdict": issued.verdict.model_copy(update={"workloads": results})})


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if children is None:
        yield path
        return
    for key, child in children:
        yield from _leaves(child, (*path, key))


@settings(max_examples=150)
@given(data=st.data())
def test_an_altered_certificate_is_refused(case: Case, data: st.DataObject) -> None:
    """Whichever value is changed, to whatever."""
    whole = json.loads(case.file.read_bytes())
    path = data.draw(st.sampled_from(list(_leaves(whole["certificate"]))))
    place = whole["certificate"]
    for key in path[:-1]:
        place = place[key]
    changed = data.draw(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()))
    if type(changed) is type(place[path[-1]]) and changed == place[path[-1]]:
        return
    place[path[-1]] = changed
    with pytest.raises(CertificateError):
        certificate.parse(json.dumps(whole).encode(), "altered")


def test_removing_or_adding_is_altering_too(case: Case) -> None:
    for change in ("remove", "add", "repeat"):
        text = case.file.read_text()
        whole = json.loads(text)
        if change == "remove":
            del whole["certificate"]["failure"]
        elif change == "add":
            whole["certificate"]["note"] = "best of all"
        raw = (
            text.replace('"issued"', '"issued": "2001-01-01", "issued"', 1) if change == "repeat" else json.dumps(whole)
        )
        with pytest.raises(CertificateError):
            certificate.parse(raw.encode(), change)


def test_a_certificate_signed_by_another_key_is_known_as_such(case: Case, tmp_path: Path) -> None:
    assert case.accepted.judge != certificate.public_key(b"x" * 32)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
)


@settings(max_examples=200)
@given(raw=st.one_of(st.binary(), json_values.map(lambda value: json.dumps(value).encode())))
def test_no_input_does_more_than_be_refused(raw: bytes) -> None:
    with pytest.raises(CertificateError):
        certificate.parse(raw, "fuzz")


@settings(max_examples=200)
@given(body=json_values, judge=st.one_of(st.text(), st.binary(min_size=32, max_size=32).map(bytes.hex)), sign=st.text())
def test_nothing_of_the_right_shape_but_unsigned_is_taken(body: Any, judge: str, sign: str) -> None:
    inner = {**body, "judge": judge} if isinstance(body, dict) else {"judge": judge}
    with pytest.raises(CertificateError):
        certificate.parse(json.dumps({"certificate": inner, "signature": sign}).encode(), "fuzz")
