"""Tests in this folder that are marked `gpu` need an NVIDIA GPU and say so where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelwright.contracts import nvrtc
from kernelwright.devices import nvidia


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = nvidia.absence() or nvrtc.available()
    if not missing:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session")
def bench() -> Iterator[object]:
    from tests.gpu.harness import Bench

    made = Bench()
    yield made
    made.close()
