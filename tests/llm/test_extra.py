"""Without the extra everything else works, and asking for a model gets one line."""

from __future__ import annotations

import sys

import pytest

from kernelwright.llm.config import EnsembleConfig, EnsembleError, parse_member
from kernelwright.llm.ensemble import open_ensemble


def test_asking_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("pydantic_ai", "kernelwright.llm.client"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(EnsembleError, match=r"pip install -e '\.\[llm\]' in the clone"):
        open_ensemble(EnsembleConfig(members=(parse_member("ollama:qwen3"),)))


def test_a_missing_key_is_said_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(EnsembleError, match="ANTHROPIC_API_KEY is not set"):
        open_ensemble(EnsembleConfig(members=(parse_member("anthropic:claude-x"),)))
