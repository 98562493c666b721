"""Every certificate in the repository can still be read and replayed, as far as can be told without its device."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.archives import SEPARATOR, SUFFIX, read_archive
from kernelwright.devices.names import device_named
from kernelwright.judge import certificate
from kernelwright.judge.baseline_names import chosen
from kernelwright.judge.certificate import Certificate, Signed
from kernelwright.judge.replay import refuse_excess, settings_of
from kernelwright.tasks.hidden import require_within
from kernelwright.tasks.loading import digest, sources_of
from kernelwright.tasks.resolve import declared, narrowed, parse, resolve
from tests.golden.frozen import assert_frozen

ROOT = Path(__file__).parents[2]
KEPT = ("benchmarks/results", "examples")


def _raw() -> dict[str, bytes]:
    """Of everything that is kept, in files and in archives, what has a signature."""
    kept = {}
    for part in KEPT:
        kept |= {str(path.relative_to(ROOT)): path.read_bytes() for path in sorted((ROOT / part).rglob("*.json"))}
        for path in sorted((ROOT / part).rglob(f"*{SUFFIX}")):
            files = read_archive(path).files
            kept |= {f"{path.relative_to(ROOT)}{SEPARATOR}{name}": raw for name, raw in files.items()}
    return {name: raw for name, raw in kept.items() if b'"signature"' in raw and b'"subkey"' in raw}


RAW = _raw()


@pytest.fixture(scope="module")
def issued() -> dict[str, Certificate]:
    return {name: certificate.parse(raw, name) for name, raw in RAW.items()}


def test_all_are_read_with_their_signatures(issued: dict[str, Certificate]) -> None:
    verdicts = {one.candidate.id: f"{one.task.name} {one.verdict.verdict}" for one in issued.values()}
    assert_frozen("certificates", {"count": len(issued), "candidates": verdicts})


@pytest.mark.parametrize("name", RAW)
def test_what_is_written_again_is_what_was_signed(name: str) -> None:
    """Fields that were added since have their defaults, so nothing that was signed is lost or altered."""
    outer = json.loads(RAW[name])
    again = json.loads(Signed.model_validate(outer).model_dump_json(by_alias=True))
    assert _within(outer, again) is None


def test_all_are_about_tasks_that_are_still_the_same(issued: dict[str, Certificate]) -> None:
    digests: dict[str, str] = {}
    for name, one in issued.items():
        task = parse(one.task.reference).name  # the file is the same at every size and for the gradient
        if task not in digests:
            digests[task] = digest(sources_of(resolve(task).origin))
        assert digests[task] == one.task.digest, name


def test_all_say_how_to_judge_again(issued: dict[str, Certificate]) -> None:
    for name, one in issued.items():
        refuse_excess(one)
        settings = settings_of(one)
        assert settings.baselines == chosen(settings.baselines, settings.device.kind), name
        assert settings.effort == one.settings.effort and settings.threads == one.settings.threads, name
        assert settings.replaying is not None, name
        hidden = {(result.label, result.dtype) for result in one.verdict.workloads if result.hidden}
        assert hidden <= {(workload.label, workload.dtype) for workload in settings.replaying.hidden}, name


def test_their_hidden_workloads_lie_within_their_tasks(issued: dict[str, Certificate]) -> None:
    for one in issued.values():
        named = parse(one.task.reference)
        task = declared(str(replace(named, sizes={})))
        placed = narrowed(task.on(device_named(one.settings.device).kind), named.sizes)
        for workload in (*one.hidden_workloads, *one.lighter_workloads):
            require_within(placed, workload)


def _within(stored: object, again: object, place: str = "") -> str | None:
    """Where something that was stored is missing or another value."""
    if isinstance(stored, dict) and isinstance(again, dict):
        missing = next((f"{place}.{key} is lost" for key in stored if key not in again), None)
        return missing or next(
            filter(None, (_within(stored[key], again[key], f"{place}.{key}") for key in stored)), None
        )
    if isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        return next(
            filter(None, (_within(a, b, f"{place}[{i}]") for i, (a, b) in enumerate(zip(stored, again, strict=True)))),
            None,
        )
    return None if stored == again else f"{place} was {stored!r}, is {again!r}"
