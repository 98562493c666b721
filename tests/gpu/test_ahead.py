"""Builds beside the judging of others: taken where they are done, waited for, never waited for in vain."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import nullcontext
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.model import BuildFailure, GpuBuild
from kernelwright.devices import lock
from kernelwright.errors import CannotDecide
from kernelwright.judge.controller import Judge
from kernelwright.judge.gpu.ahead import MOST_KEPT, AheadBuilds
from kernelwright.judge.gpu.workshop import GpuWorkshop
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Reason
from kernelwright.tasks.model import Signature, TensorSpec
from tests.gpu.played import CUDA, play
from tests.gpu.test_played import TASK, kernel


def signature(rows: int) -> Signature:
    return Signature((TensorSpec("x", "float32", (rows,), (1,), "input"),))


class ToyToolchain:
    """Builds a source named `slow` when it is let go, and cannot build one named `impossible`."""

    compiler = "toy"

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()
        self.built: list[tuple[str, tuple[Signature, ...]]] = []
        self.refilled = 0

    def build(self, candidate: Candidate, signatures: tuple[Signature, ...]) -> GpuBuild | BuildFailure:
        self.begun.set()
        if candidate.source == "slow":
            assert self.go.wait(30)
        if candidate.source == "impossible":
            raise CannotDecide("the compiler did not start")
        self.built.append((candidate.source, signatures))
        return BuildFailure((candidate.source,))

    def refill(self) -> None:
        self.refilled += 1

    def close(self) -> None: ...


@pytest.fixture
def toolchain() -> ToyToolchain:
    return ToyToolchain()


@pytest.fixture
def ahead(toolchain: ToyToolchain, monkeypatch: pytest.MonkeyPatch) -> Iterator[AheadBuilds]:
    monkeypatch.setattr(lock, "working", nullcontext)  # other tests measure on this CPU
    builds = AheadBuilds(lambda contract: toolchain, 1)
    yield builds
    toolchain.go.set()
    builds.close()


def source(text: str) -> Candidate:
    return Candidate("cuda", text)


ONE, TWO = (signature(1),), (signature(2),)


def test_each_group_is_a_build_of_its_own_and_is_taken_once(ahead: AheadBuilds, toolchain: ToyToolchain) -> None:
    ahead.begin(source("a"), [ONE, TWO, ()])
    ahead.begin(source("slow"), [ONE])
    toolchain.go.set()
    assert ahead.take(source("a"), ONE + TWO) is None
    wait(ahead._begun.values(), 30)
    assert toolchain.built == [("a", ONE), ("a", TWO), ("slow", ONE)]
    assert ahead.take(source("a"), TWO) == BuildFailure(("a",))
    assert ahead.take(source("a"), TWO) is None


def test_what_is_under_way_is_waited_for_and_what_was_not_begun_is_left_to_the_job(
    ahead: AheadBuilds, toolchain: ToyToolchain
) -> None:
    ahead.begin(source("slow"), [ONE])
    ahead.begin(source("behind"), [ONE])
    assert toolchain.begun.wait(30)
    assert ahead.take(source("behind"), ONE) is None
    threading.Timer(0.05, toolchain.go.set).start()
    assert ahead.take(source("slow"), ONE) == BuildFailure(("slow",))
    ahead.begin(source("last"), [ONE])
    wait(ahead._begun.values(), 30)
    assert [name for name, _ in toolchain.built] == ["slow", "last"]


def test_closing_waits_for_no_build(ahead: AheadBuilds, toolchain: ToyToolchain) -> None:
    ahead.begin(source("slow"), [ONE])
    ahead.begin(source("behind"), [ONE])
    under_way, behind = ahead._begun.values()
    assert toolchain.begun.wait(30)
    ahead.close()
    assert not under_way.done() and behind.cancelled()
    toolchain.go.set()
    under_way.result(30)
    assert toolchain.refilled == 0


def test_what_keeps_a_builder_from_its_work_is_raised_where_the_build_is_taken(ahead: AheadBuilds) -> None:
    ahead.begin(source("impossible"), [ONE])
    wait(ahead._begun.values(), 30)
    with pytest.raises(CannotDecide, match="did not start"):
        ahead.take(source("impossible"), ONE)


def test_builds_that_nobody_takes_are_let_go(ahead: AheadBuilds, toolchain: ToyToolchain) -> None:
    ahead.begin(source("slow"), [ONE])
    assert toolchain.begun.wait(30)
    for number in range(2 * MOST_KEPT):
        ahead.begin(source(str(number)), [ONE])
    assert len(ahead._begun) == MOST_KEPT and ahead.take(source("slow"), ONE) is None


def test_on_few_cores_nothing_is_built_ahead(toolchain: ToyToolchain) -> None:
    builds = AheadBuilds(lambda contract: toolchain, 0)
    builds.begin(source("a"), [ONE])
    assert builds.take(source("a"), ONE) is None and not toolchain.begun.is_set()
    builds.close()


# --- in a judge ------------------------------------------------------------------------------------------------------

needs_nvrtc = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available())
QUICK = Settings(baselines=(), effort=Sampling(least=2, most=2), device=CUDA, safety=False, domain=False)
BROKEN = kernel("broken", "2 * x[i]", "2 * y[i]")


@needs_nvrtc
def test_what_is_expected_is_built_beside_the_judging_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tmp_path / "twice.py"
    task.write_text(TASK)
    play(monkeypatch)
    with Judge(QUICK) as judge:
        shop = judge._shop
        assert isinstance(shop, GpuWorkshop)
        shop.ahead.close()
        shop.ahead = AheadBuilds(shop.toolchain, 2)
        own = [kernel("first"), kernel("second"), BROKEN]
        judge.expect(str(task), own)  # of a task that is not open nothing is known
        assert not shop.ahead._begun
        judge.open(str(task))
        judge.expect(str(task), [*own, Candidate("cpp", "another device"), Candidate("cuda", "no plan at all")])
        assert len(shop.ahead._begun) == 2 * (len(own) + 1)  # public and hidden workloads are built apart
        monkeypatch.setattr(shop.oracle, "foreseen", lambda *_: pytest.fail("the oracle was asked again"))
        judge.expect(str(task), own)
        toolchain = shop.toolchain("cuda")
        expected = [future.result() for future in shop.ahead._begun.values()]
        monkeypatch.setattr(toolchain, "build", lambda *_: pytest.fail("a job built what was built ahead"))
        verdicts = [judge.judge(str(task), candidate) for candidate in own]
    assert [verdict.verdict for verdict in verdicts] == [Outcome.accepted, Outcome.accepted, Outcome.rejected]
    assert verdicts[2].reason is Reason.does_not_build and not verdicts[2].failed_on_hidden
    assert all(any(one.hidden for one in verdict.workloads) for verdict in verdicts[:2])
    assert sum(isinstance(one, BuildFailure) for one in expected) == 4


@needs_nvrtc
def test_a_judging_builds_its_own_workloads_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = tmp_path / "twice.py"
    task.write_text(TASK)
    play(monkeypatch)
    both = threading.Barrier(2, timeout=60)
    with Judge(QUICK) as judge:
        shop = judge._shop
        assert isinstance(shop, GpuWorkshop)
        shop.ahead.close()
        shop.ahead = AheadBuilds(shop.toolchain, 2)
        toolchain = shop.toolchain("cuda")
        build, met_there = toolchain.build, []

        def met(candidate: Candidate, signatures: tuple[Signature, ...]) -> GpuBuild | BuildFailure:
            both.wait()  # a build that is made after the other one never gets here in time
            met_there.append(signatures)
            return build(candidate, signatures)

        monkeypatch.setattr(toolchain, "build", met)
        assert judge.judge(str(task), kernel("own")).verdict is Outcome.accepted
        assert len(met_there) == 2 and not shop.ahead._begun
