"""Certificates of strangers (threat 75): whatever one says, nothing that it names is imported, opened or believed."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import forgery
from tests.forgery import forged
from typer.testing import CliRunner

from kernelwright.cli.main import assembled
from kernelwright.contracts.artefact import MARK
from kernelwright.errors import KernelwrightError
from kernelwright.judge import certificate
from kernelwright.judge import replay as replays
from kernelwright.judge.certificate import Certificate, CertificateError
from kernelwright.judge.replay import compare, compared_artefact, replay
from kernelwright.judge.settings import HIDDEN_PER_EVALUATION, Settings
from kernelwright.judge.strangers import trusted
from kernelwright.judge.strangers.bounds import MAX_DEPTH, OutOfBoundsError, require_bounded
from kernelwright.judge.strangers.certified_task import MOST_OPERATIONS
from kernelwright.judge.strangers.standard import below_standard
from kernelwright.judge.verdict import Outcome, Verdict
from kernelwright.tasks.loading import digest, hash_of
from kernelwright.tasks.resolve import BUILTIN

TRAP = """
from pathlib import Path
Path(__file__).with_name("imported").write_text("the file was run")
from kernelwright.tasks import Task, tensor
task = Task(lambda x: x * 2, inputs={"x": tensor("rows")}, public=[{"rows": 40}], hidden={"rows": (3, 70)})
"""


def read(raw: bytes) -> Certificate:
    return certificate.parse(raw, "stranger")


class PlayedJudge:
    """Nothing is started: says what it was asked to judge, and repeats what the certificate claims."""

    settings: Settings | None = None

    def __init__(self, settings: Settings) -> None:
        self.opened: list[str] = []

    def open(self, task: str) -> Any:
        self.opened.append(task)
        name = task.partition("@")[0].partition(":")[0]
        path = BUILTIN / f"{name}.py" if (BUILTIN / f"{name}.py").exists() else Path(name)
        return type("Opened", (), {"sources": ((str(path), hash_of(path)),), "name": task.replace(name, path.stem)})

    def judge(self, task: str, candidate: Any, progress: Any, settings: Settings) -> Verdict:
        PlayedJudge.settings = settings
        return PlayedJudge.verdict  # type: ignore[attr-defined,no-any-return]

    def close(self) -> None:
        pass


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> type[PlayedJudge]:
    monkeypatch.setattr(replays, "Judge", PlayedJudge)
    PlayedJudge.settings = None
    PlayedJudge.verdict = read(forged()).verdict  # type: ignore[attr-defined]
    return PlayedJudge


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    path = tmp_path / "trap.py"
    path.write_text(TRAP)
    return path


def of_task(path: Path, **changes: Any) -> Certificate:
    """A stranger's certificate about a task file, with the right hash of it."""
    task = {"reference": str(path), "name": "trap", "digest": digest(((str(path), hash_of(path)),))}
    return read(forged(task={**task, **changes}, verdict__task="trap"))


def test_the_file_that_a_stranger_names_is_not_run(trap: Path, played: type[PlayedJudge]) -> None:
    with pytest.raises(CertificateError, match=r"another judge and names .*; give the file that you trust with --task"):
        replay(of_task(trap))
    assert played.settings is None and not trap.with_name("imported").exists()


def test_a_file_that_differs_is_refused_before_it_is_imported(trap: Path, played: type[PlayedJudge]) -> None:
    issued = of_task(trap)
    trap.write_text(TRAP + "\n# edited\n")
    with pytest.raises(CertificateError, match="is not the task of the certificate any more"):
        replay(issued, str(trap))
    assert played.settings is None and not trap.with_name("imported").exists()


def test_one_of_several_files_is_compared_before_it_is_imported(trap: Path, played: type[PlayedJudge]) -> None:
    """With the hashes of all files in the certificate, the first one can be told from another."""
    files = tuple(sorted([hash_of(trap), "a" * 64]))
    whole = digest(tuple(("", part) for part in files))
    with pytest.raises(CertificateError, match="the hash of its task is not that of the task's files"):
        of_task(trap, files=["b" * 64], digest=whole)
    issued = of_task(trap, files=files, digest=whole)
    trap.write_text(TRAP + "\n# edited\n")
    with pytest.raises(CertificateError, match="is not the task of the certificate any more"):
        replay(issued, str(trap))
    assert not trap.with_name("imported").exists()


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("maxpool2d@batch=999999999999999999", "GiB for one workload|too large"),
        ("maxpool2d@batch=1,channels=1,height=900000000,width=900000000", "GiB for one workload|too large"),
        ("linear@rows=40000,features=40000,units=40000", "operations for one call|GiB for one workload"),
    ],
)
def test_sizes_that_this_machine_cannot_hold_are_refused_before_anything_starts(
    reference: str, why: str, played: type[PlayedJudge]
) -> None:
    name = reference.partition("@")[0]
    path = BUILTIN / f"{name}.py"
    task = {"reference": reference, "name": reference, "digest": digest(((str(path), hash_of(path)),))}
    with pytest.raises(CertificateError, match=why):
        replay(read(forged(task=task, verdict__task=reference, verdict__workloads=[], hidden=[])))
    assert played.settings is None and min(MOST_OPERATIONS.values()) > 0


def test_hidden_workloads_outside_of_the_task_are_refused_before_anything_starts(played: type[PlayedJudge]) -> None:
    huge = [{"sizes": [[name, 1 << 40] for name in ("batch", "channels", "height", "width")], "dtype": "float32"}]
    with pytest.raises(CertificateError, match="not those of its task"):
        replay(read(forged(hidden=huge, verdict__workloads=[])))
    assert played.settings is None


def test_ones_own_key_draws_hidden_sizes_and_values_beside_the_strangers(played: type[PlayedJudge]) -> None:
    issued = read(forged())
    replay(issued)
    assert played.settings is not None and played.settings.replaying is not None
    assert played.settings.replaying.own_hidden == HIDDEN_PER_EVALUATION
    assert played.settings.replaying.hidden == issued.hidden_workloads
    assert played.settings.replaying.subkey != bytes.fromhex(issued.subkey) and played.settings.key is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"terms__public_only": True}, "public workloads alone"),
        ({"terms__safety": False}, "no sanitizers"),
        ({"terms__baselines": ["eager"]}, "without the baseline compile"),
        ({"terms__baselines": []}, "without the baseline eager and compile"),
        ({"terms__effort": {"least": 1, "most": 1, "step": 1, "seconds": 1.0}}, "1 blocks at least, where 12"),
        ({"hidden": []}, "0 hidden workloads, where 3"),
    ],
)
def test_less_than_todays_standard_is_said_and_does_not_count(
    changes: dict[str, Any], said: str, played: type[PlayedJudge]
) -> None:
    outcome = replay(read(forged(verdict__workloads=[], **changes)))
    assert outcome.same is True and not outcome.counts and any(said in line for line in outcome.below)


def test_the_sandbox_is_the_one_of_now(played: type[PlayedJudge]) -> None:
    """What the certificate claims of it is not looked at, neither for what is shown nor for what counts."""
    claimed = read(forged(verdict__conditions__sandbox="full"))
    weaker = claimed.verdict.conditions.model_copy(update={"sandbox": "none"})
    outcome = compare(claimed, claimed.verdict.model_copy(update={"conditions": weaker}))
    assert outcome.sandbox == "none" and not outcome.counts and "isolation none here, and not full" in outcome.below
    boasting = read(forged(verdict__conditions__sandbox="full, audited by the judge"))
    assert below_standard(boasting, claimed.verdict) == below_standard(claimed, claimed.verdict)
    done = CliRunner().invoke(assembled(["replay"]), ["replay", "nowhere.json"])
    assert isinstance(done.exception, CertificateError)


def _claiming(low: float, **changes: Any) -> list[dict[str, Any]]:
    """The workloads of a verdict that claims as much on each of them."""
    found = forgery.body()["verdict"]["workloads"]
    for result in found:
        for one in result["baselines"]:
            one["speedup"] = {"low": low, "mid": low, "high": low}
            one["baseline"] = changes.get("baseline", one["baseline"])
        result.update({name: value for name, value in changes.items() if name != "baseline"}, speed="measured")
    return found


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"verdict__workloads": _claiming(98.0, baseline="\u0435ager")}, "a baseline that its terms do not have"),
        ({"verdict__workloads": _claiming(98.0, label="rows=1", hidden=True)}, "hidden workload that it does not name"),
        ({"verdict__workloads": _claiming(98.0, label="rows=1", hidden=False)}, "public workloads that its task"),
        ({"verdict__conditions__threads": 77}, "another number of threads"),
        ({"task__name": "softmax", "verdict__task": "softmax"}, "says that it is about 'softmax', and its task is max"),
    ],
)
def test_a_speed_that_no_replay_can_compare_is_refused(
    changes: dict[str, Any], why: str, played: type[PlayedJudge]
) -> None:
    """Otherwise the certificate would be shown beside what was measured, and be called the same."""
    with pytest.raises(CertificateError, match=why):
        replay(read(forged(**changes)))
    assert played.settings is None


def test_only_a_rejection_is_replayed_on_points_and_values_of_the_signers(played: type[PlayedJudge]) -> None:
    """A signer who chose the points of the domain check could sign a kernel that is right at these alone."""
    failure = {"run": "checked rows=1", "family": "normal", "seed": 1}
    with pytest.raises(CertificateError, match="does not say that it was rejected"):
        read(forged(failure=failure, checks="ab" * 32))
    replay(read(forged(checks="ab" * 32)))
    assert played.settings is not None and played.settings.replaying is not None
    assert played.settings.replaying.checks is None and played.settings.replaying.failing_draw is None
    rejected = {"verdict__verdict": "rejected", "verdict__reason": "wrong"}
    replay(read(forged(failure=failure, checks="ab" * 32, **rejected)))
    assert played.settings.replaying.checks == b"\xab" * 32 and played.settings.replaying.failing_draw is not None


def test_what_was_built_is_told_from_its_content() -> None:
    then = read(forged()).verdict
    new = then.model_copy(update={"artefact": f"{MARK}1"})
    compiler = new.conditions.model_copy(update={"compiler": "g++ 13"})
    processor = new.conditions.model_copy(update={"device": "cpu: another"})
    assert compared_artefact(new, new) == "the same bytes"
    assert compared_artefact(then, new) == "the same toolchain; the certificate has no hash of the bytes"
    other = new.model_copy(update={"artefact": f"{MARK}2"})
    assert compared_artefact(new, other) == "the same toolchain, other bytes"
    assert "for another processor" in compared_artefact(new, other.model_copy(update={"conditions": processor}))
    newer = compared_artefact(new, other.model_copy(update={"conditions": compiler}))
    assert newer == f"another toolchain ({new.conditions.compiler} → g++ 13)"


def test_json_of_a_stranger_is_bounded() -> None:
    deep: Any = 0
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    for value in (deep, {"a" * 300: 1}, 1 << 63, float("inf"), float("nan"), "\ud800", {"\udfff": 1}):
        with pytest.raises(OutOfBoundsError):
            require_bounded(value)
    require_bounded({"a": [1, -1, 1.5, None, True, "ü\n"]})
    for raw in (b"[" * 100_000, b'{"certificate": {"judge": 1e999}}', b'{"certificate": ' + b"9" * 5000 + b"}"):
        with pytest.raises(CertificateError):
            read(raw)


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 1 << 40, (1 << 63) - 1, 1 << 64, 10**30]),
    st.floats(),
    st.sampled_from([0.0, -1.0, 1e308, float("nan"), float("inf")]),
    st.text(max_size=40),
    st.sampled_from(
        [
            "./trap.py", "/etc/passwd", "../../x", "rmsnorm@rows=999999999999999999", "rmsnorm@rows=1,rows=2", "a:b:c",
            "\x1b[2J\x1b]0;owned\x07", "[bold]THE SAME[/]", "\u202eTHE SAME", "\ud800", "cuda:0", "cpu", "toy", "nan",
        ]
    ),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        if len(path) < 6 and not (isinstance(value, list) and key > 3):
            yield (*path, key)
            yield from _places(child, (*path, key))


PLACES = list(_places(forgery.body()))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), HOSTILE), min_size=1, max_size=3))
def test_whatever_a_stranger_signs_ends_in_one_line_or_a_replay(
    changes: list[tuple[tuple[Any, ...], Any]],
    tmp_path: Path,
    trap: Path,
    played: type[PlayedJudge],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Never a crash, an import or a file that it names; what is judged then is within bounds, and drawn here."""
    monkeypatch.chdir(tmp_path)
    content = forgery.body()
    for path, value in changes:
        place = content
        try:
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
        except (KeyError, IndexError, TypeError, ValueError):
            pass
    try:
        raw = forgery.sign(content)
    except (ValueError, RecursionError):  # a number that JSON does not have
        raw = json.dumps({"certificate": content, "signature": "00"}).encode()
    file = tmp_path / "stranger.json"
    file.write_bytes(raw)
    played.settings = None
    opened: list[str] = []
    real = builtins.open

    def watching(name: Any, *given: Any, **named: Any) -> Any:
        opened.append(str(name))
        return real(name, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(builtins, "open", watching)
        done = CliRunner().invoke(assembled(["replay"]), ["replay", str(file)])
    assert "kernelwright_task" not in " ".join(name for name in sys.modules if "trap" in name)
    assert not trap.with_name("imported").exists() and not any("passwd" in name or "trap" in name for name in opened)
    assert all(letter.isprintable() or letter == "\n" for letter in done.output)
    if isinstance(done.exception, KernelwrightError):
        assert done.exception.exit_code == 2 and played.settings is None, done.exception
        return
    assert isinstance(done.exception, SystemExit | None), repr(done.exception)
    assert played.settings is not None, done.output
    assert played.settings.effort.most <= replays.MOST_BLOCKS and played.settings.threads <= replays.MOST_THREADS
    assert played.settings.replaying is not None and played.settings.replaying.own_hidden == HIDDEN_PER_EVALUATION


def test_a_played_replay_that_lies_about_nothing_counts(played: type[PlayedJudge]) -> None:
    """The honest twin: on today's standard and at full isolation, a stranger's certificate that repeats counts."""
    issued = read(forged())
    full = issued.verdict.conditions.model_copy(update={"sandbox": "full"})
    played.verdict = issued.verdict.model_copy(update={"conditions": full})  # type: ignore[attr-defined]
    outcome = replay(issued)
    if "domain" not in Verdict.model_fields:
        assert outcome.counts and outcome.same is True
    assert issued.verdict.verdict is Outcome.accepted and not trusted.signature_of(issued).trusted
