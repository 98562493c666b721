"""The whole loop on a toy: it finds fast kernels, it can be killed at any time, and nobody else can write meanwhile."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelwright.search.core.events import FinalHeld, StopReason
from kernelwright.search.core.state import Standing, fold
from kernelwright.search.journal import JournalError, read
from kernelwright.search.run import create, look, take_up
from tests.search import toy

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("policy", ["greedy", "islands", "random"])
def test_a_search_ends_on_its_budget_with_a_best_that_won_a_final(tmp_path: Path, policy: str) -> None:
    state = toy.search(tmp_path, policy=policy)
    assert state.stopped is not None and state.stopped.reason is StopReason.budget
    assert state.spent.evaluations <= 66  # the last final may take a few more than are left
    assert state.best is not None
    best = state.entries[state.best]
    assert best.standing is Standing.accepted and best.score is not None
    won = [event for event in read(tmp_path / "toy-1") if isinstance(event, FinalHeld) and event.won]
    assert won[-1].challenger == state.best


@pytest.mark.parametrize("lockstep", [True, False])
def test_no_request_is_opened_whose_answer_could_not_be_judged(tmp_path: Path, lockstep: bool) -> None:
    state = toy.search(tmp_path, budget="1evals", lockstep=lockstep)
    assert (state.requests, state.spent.evaluations) == (1, 1)
    assert state.stopped is not None and state.stopped.reason is StopReason.budget


def test_learning_beats_random_sampling(tmp_path: Path) -> None:
    def reached(policy: str, seed: int) -> float:
        state = toy.search(tmp_path / f"{policy}{seed}", policy=policy, seed=seed, budget="100evals")
        assert state.best is not None
        return toy.speed(toy.genes_of(state.entries[state.best].proposal.candidate))

    for policy in ("greedy", "islands"):
        assert sum(reached(policy, seed) > reached("random", seed) for seed in range(3)) >= 2


def test_a_run_is_repeatable(tmp_path: Path) -> None:
    first, second = (toy.search(tmp_path / name, policy="islands", seed=3) for name in "ab")
    assert toy.essence(first) == toy.essence(second)
    assert toy.essence(first) != toy.essence(toy.search(tmp_path / "c", policy="islands", seed=4))


def test_what_was_seen_live_is_what_a_replay_gives(tmp_path: Path) -> None:
    state = toy.search(tmp_path)
    assert look(tmp_path / "toy-1") == state


def test_a_stopped_run_goes_on_with_a_larger_budget(tmp_path: Path) -> None:
    before = toy.search(tmp_path, budget="20evals")
    after = toy.resume(tmp_path / "toy-1", "60evals")
    assert after.spent.evaluations > before.spent.evaluations and after.sessions == 2
    assert after.evaluated > before.evaluated


def test_two_drivers_cannot_write_one_run(tmp_path: Path) -> None:
    folder = create(tmp_path, toy.started())
    run = take_up(folder, "10evals", time.time())
    with pytest.raises(JournalError, match="another process is at work on this run"):
        take_up(folder, "10evals", time.time())
    command = [sys.executable, "-m", "tests.search.toy", str(folder), "10evals", "0"]
    other = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert other.returncode != 0 and "another process is at work on this run" in other.stderr
    run.close()
    assert toy.resume(folder, "10evals").stopped is not None


def kill(folder: Path, budget: str, draw: random.Random, latencies: str = "0.02") -> None:
    """Starts a driver and kills it at a random point of its work."""
    command = [sys.executable, "-m", "tests.search.toy", str(folder), budget, latencies]
    driver = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    before = len(list(read(folder)))
    while driver.poll() is None and len(list(read(folder))) <= before:
        time.sleep(0.002)  # the kill is to meet it at work, and not while it starts
    seen = len(list(read(folder)))
    time.sleep(draw.uniform(0, 0.08))
    os.kill(driver.pid, signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL and len(list(read(folder))) >= seen
    driver.communicate()


def _survives(tmp_path: Path, kills: int, budget: str) -> None:
    unbroken = toy.search(tmp_path / "unbroken", policy="islands", budget=budget)
    folder = create(tmp_path / "killed", toy.started("islands"))
    draw = random.Random(kills)
    for _ in range(kills):
        kill(folder, budget, draw)
        assert look(folder).stopped is None
    state = toy.resume(folder, budget)
    assert state.sessions == kills + 1
    assert toy.essence(state) == toy.essence(unbroken)
    assert state == fold(read(folder))


def test_a_few_kills_change_nothing(tmp_path: Path) -> None:
    _survives(tmp_path, kills=4, budget="60evals")


@pytest.mark.slow
def test_fifty_kills_change_nothing(tmp_path: Path) -> None:
    _survives(tmp_path, kills=50, budget="400evals")
