"""Back-off in milliseconds, so that tests of retries take no time."""

from __future__ import annotations

import pytest

from kernelwright.llm import calling


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "FIRST_WAIT", 0.001)
