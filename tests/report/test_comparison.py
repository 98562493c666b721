"""Two runs side by side."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelwright.errors import KernelwrightError
from kernelwright.judge.verdict import IntervalValue, SpeedStatus
from kernelwright.report.comparison import Faster, compare, compared_sources
from kernelwright.report.model import KernelView, RunView
from kernelwright.report.subjects import one_run
from tests.report.made import toy_run


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunView, RunView]:
    root = tmp_path_factory.mktemp("runs")
    slow, fast = toy_run(root, budget="8evals"), toy_run(root, seed=2, budget="60evals")
    return one_run(str(slow), root), one_run(str(fast), root)


def best(run: RunView) -> KernelView:
    assert run.best is not None
    return run.best


def with_conditions(run: RunView, **changes: Any) -> RunView:
    conditions = best(run).conditions.model_copy(update=changes)
    return replace(run, best=replace(best(run), conditions=conditions))


def test_the_faster_one_is_told_on_every_workload(pair: tuple[RunView, RunView]) -> None:
    slow, fast = pair
    found = compare(slow, fast)
    assert found.comparable and not found.differing and found.faster is Faster.second
    assert [row.workload for row in found.workloads] == ["a", "b"]
    assert {row.faster for row in found.workloads} == {Faster.second}
    for row in found.workloads:
        assert row.first and row.second and row.ratio and row.baseline == "eager"
        assert row.ratio.mid == pytest.approx(row.second.mid / row.first.mid)
        assert row.ratio.low < row.ratio.mid < row.ratio.high
    assert compare(fast, slow).faster is Faster.first


def test_a_run_beside_itself_is_not_decided(pair: tuple[RunView, RunView]) -> None:
    found = compare(pair[0], pair[0])
    assert found.faster is Faster.undecided and found.ratio is not None
    assert found.ratio.mid == pytest.approx(1.0) and not compared_sources(pair[0], pair[0]).lines


@pytest.mark.parametrize(
    "change",
    [
        lambda run: replace(run, task="other"),
        lambda run: replace(run, task_digest="e" * 64),
        lambda run: replace(run, baselines=("eager",)),
        lambda run: with_conditions(run, device="another"),
        lambda run: with_conditions(run, threads=7),
        lambda run: with_conditions(run, judge_version="9.9"),
        lambda run: with_conditions(run, driver="600"),
    ],
)
def test_nothing_is_put_into_one_number_where_conditions_differ(pair: tuple[RunView, RunView], change: Any) -> None:
    found = compare(pair[0], change(pair[1]))
    assert not found.comparable and found.ratio is None and found.faster is Faster.not_compared
    assert [one for one in found.differing if one.matters]
    for row in found.workloads:  # both speedups are shown all the same
        assert row.first and row.second and row.ratio is None and row.faster is Faster.not_compared


def test_what_does_not_matter_is_told_and_changes_nothing(pair: tuple[RunView, RunView]) -> None:
    found = compare(pair[0], with_conditions(pair[1], compiler="g++ 99"))
    assert found.comparable and [one.what for one in found.differing] == ["compiler"]


def test_an_undecided_speed_decides_nothing(pair: tuple[RunView, RunView]) -> None:
    first, *others = best(pair[1]).public
    noisy = replace(first, result=first.result.model_copy(update={"speed": SpeedStatus.noisy}))
    found = compare(pair[0], replace(pair[1], best=replace(best(pair[1]), public=(noisy, *others))))
    assert found.workloads[0].faster is Faster.undecided and "undecided" in found.workloads[0].why
    assert found.workloads[1].faster is Faster.second and found.ratio is None


def test_workloads_that_one_did_not_meet_are_named(pair: tuple[RunView, RunView]) -> None:
    found = compare(pair[0], replace(pair[1], best=replace(best(pair[1]), public=best(pair[1]).public[:1])))
    assert found.only_first == ("b",) and found.ratio is None and len(found.workloads) == 1


def test_sources_differ_by_lines(pair: tuple[RunView, RunView]) -> None:
    diff = compared_sources(*pair)
    assert diff.added == diff.removed == 1 and {line.kind for line in diff.lines} >= {"added", "removed", "place"}


def test_a_run_without_a_best_is_refused(pair: tuple[RunView, RunView]) -> None:
    with pytest.raises(KernelwrightError, match="has no best to compare: nothing was judged"):
        compare(pair[0], replace(pair[1], best=None, no_best=("nothing was judged",)))


def test_views_are_frozen(pair: tuple[RunView, RunView]) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        pair[0].name = "other"  # type: ignore[misc]
    assert IntervalValue.model_config["frozen"]


def test_paths_do_not_travel(pair: tuple[RunView, RunView], tmp_path: Path) -> None:
    assert str(tmp_path.parent) not in compare(*pair).model_dump_json()
