"""The toy contract, registered for one test as a program would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelwright.contracts import registry
from tests.contracts.toy import TOY, ToyContract


@pytest.fixture
def toy_contract() -> Iterator[ToyContract]:
    registry.register(TOY)
    yield TOY
    registry.unregister(TOY.name)
