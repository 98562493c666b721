"""Exploits over the whole domain on a GPU: wrong at some sizes or values, or by a little. Each has an honest twin."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kernelwright.contracts.registry import read_source
from kernelwright.devices.names import Device
from kernelwright.judge.controller import Judge
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Reason, Verdict
from tests.gpu.harness import HERE
from tests.pairs import EXPLOITS

WHOLE = HERE / "exploits" / "whole"
ABOUT: dict[str, dict[str, Any]] = tomllib.loads((WHOLE / "exploits.toml").read_text())
CLASSES = {61, 62, 63, 64, 65, 66, 67, 68, 69, 73}
FASTER = 0.8  # of the twin's time; closer is noise at these sizes


def twin_of(name: str) -> Path:
    return WHOLE / f"{ABOUT[name].get('twin', name)}.twin.cu"


def task_of(name: str) -> str:
    task, colon, direction = str(ABOUT[name]["task"]).partition(":")
    return f"{EXPLOITS / 'wide' / task}.py{colon}{direction}"


def test_every_source_is_told_of_and_every_class_has_two() -> None:
    assert list(ABOUT) == sorted(ABOUT)
    sources = {path for name in ABOUT for path in (WHOLE / f"{name}.cu", twin_of(name))}
    assert sources == set(WHOLE.glob("*.cu"))
    threats = [about["threat"] for about in ABOUT.values()]
    assert {number for number in CLASSES if threats.count(number) >= 2} == CLASSES == set(threats)


@pytest.mark.parametrize("name", ABOUT)
def test_an_exploit_says_what_must_become_of_it(name: str) -> None:
    about = ABOUT[name]
    assert about["expect"] in ("rejected", "no_gain")
    assert bool(about.get("reasons")) == (about["expect"] == "rejected")
    assert set(about.get("reasons", ())) <= set(Reason)
    assert ABOUT[about.get("twin", name)]["task"] == about["task"]
    assert Path(task_of(name).removesuffix(":backward")).is_file()


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """Without sanitizers, which find nothing here."""
    settings = Settings(baselines=(), effort=Sampling(6, 6), device=Device("cuda"), safety=False)
    with Judge(settings) as one:
        yield one


@cache
def judged(judge: Judge, task: str, path: Path) -> Verdict:
    return judge.judge(task, read_source(path))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ABOUT)
def test_an_exploit_is_found_and_its_twin_is_accepted(name: str, judge: Judge) -> None:
    twin = judged(judge, task_of(name), twin_of(name))
    assert twin.verdict is Outcome.accepted, (twin.reason, twin.evidence)
    exploit = judged(judge, task_of(name), WHOLE / f"{name}.cu")
    if ABOUT[name]["expect"] == "rejected":
        assert exploit.verdict is Outcome.rejected, "it was accepted"
        assert exploit.reason in ABOUT[name]["reasons"], exploit.evidence
    elif exploit.verdict is Outcome.accepted:
        for cheat, honest in zip(exploit.workloads, twin.workloads, strict=False):
            if not cheat.hidden and cheat.seconds is not None and honest.seconds is not None:
                assert cheat.seconds > FASTER * honest.seconds
