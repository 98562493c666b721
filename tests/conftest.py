"""Shared by all tests: a home of their own, so that no test sees the user's cache or key."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from kernelwright.judge.controller import Judge
    from kernelwright.judge.emulate.check import Checker

# How long an example takes says something about the machine and nothing about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A new cache and a new key for every run of the tests.
_HOME = Path(tempfile.mkdtemp(prefix="kernelwright-tests-"))
os.environ["KERNELWRIGHT_HOME"] = str(_HOME)
os.environ["KERNELWRIGHT_NO_SERVER"] = "1"  # but for the tests of the server
os.environ["KERNELWRIGHT_ISOLATION"] = "none"  # the tests take the best level there is; those of the demand say so


def pytest_report_header() -> str:
    from kernelwright.isolation.levels import capabilities

    return f"isolation level: {capabilities().level}"


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """One for all that do nothing to the judge itself, because oracles and baselines take seconds to start."""
    from kernelwright.judge.controller import Judge
    from kernelwright.judge.settings import Settings
    from kernelwright.judge.timing.measure import Sampling

    with Judge(Settings(baselines=("eager",), effort=Sampling(least=6, most=6))) as one:
        yield one


@pytest.fixture(scope="session")
def checker() -> Iterator[Checker]:
    """One for all that is run on the emulator."""
    from kernelwright.judge.emulate.check import Checker

    with Checker(small=1) as one:
        yield one


@pytest.fixture(scope="session", autouse=True)
def _remove_home() -> Iterator[None]:
    yield
    import shutil

    shutil.rmtree(_HOME, ignore_errors=True)
