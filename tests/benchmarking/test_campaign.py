"""The campaign over all GPU measurements, with steps that need no GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.gpu import campaign
from benchmarks.gpu.campaign import Step

ENDLESS = "-c __import__('time').sleep(600)"


def said(text: str, code: int = 0) -> str:
    """A command without spaces in its program, since commands are split at them."""
    return f"-c print({text!r});raise(SystemExit({code}))"


def go(monkeypatch: pytest.MonkeyPatch, out: Path, *steps: Step, seconds: float = 60.0) -> dict[str, Any]:
    monkeypatch.setattr(campaign, "STEPS", steps)
    monkeypatch.setattr(sys, "argv", ["campaign.py", "--out", str(out), "--seconds", str(seconds)])
    assert campaign.main() == 0
    path = out / "campaign.json"
    return dict(json.loads(path.read_text())["steps"]) if path.exists() else {}


def test_a_step_that_passed_is_not_taken_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    step = Step("one", "", said("hello"), 20)
    for _ in range(2):
        assert go(monkeypatch, tmp_path, step)["one"]["state"] == "passed"
    assert (tmp_path / "one.txt").read_text().count("hello\n") == 1


def test_a_step_that_fails_leaves_the_others_and_is_given_up_at_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    steps = Step("bad", "", said("no", 3), 20), Step("good", "", said("yes"), 20)
    states = [go(monkeypatch, tmp_path, *steps) for _ in range(campaign.TRIES)]
    assert [one["bad"]["state"] for one in states] == ["failed"] * (campaign.TRIES - 1) + ["given up"]
    assert states[0]["good"]["state"] == "passed"
    assert states[-1]["bad"]["exit_code"] == 3


def test_a_step_out_of_time_ends_with_its_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long, goes_on = Step("long", "", ENDLESS, 1), Step("part", "", ENDLESS, 1, piece=0.5)
    states = go(monkeypatch, tmp_path, long, goes_on)
    assert states["long"] | {"seconds": 0} == {"state": "out of time", "exit_code": None, "seconds": 0, "tries": 1}
    assert states["part"]["state"] == "goes on"


def test_a_step_waits_for_a_go_that_has_time_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert go(monkeypatch, tmp_path, Step("long", "", said("x"), 600)) == {}
    assert "long: no time in this go\nwaiting: long" in capsys.readouterr().out


def test_a_step_without_its_checkout_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert go(monkeypatch, tmp_path, Step("far", "", "{kernelbench}/x.py", 5)) == {}
    assert "far: left out" in capsys.readouterr().out


def test_every_script_of_a_step_exists() -> None:
    scripts = [word for step in campaign.STEPS for word in step.command.split() if word.endswith(".py")]
    assert scripts
    assert all((campaign.ROOT / script).is_file() for script in scripts)
