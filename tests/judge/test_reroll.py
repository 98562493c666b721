"""A comment, other white space or another name of a file does not draw other hidden workloads."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pairs import EXPLOITS

from kernelwright.contracts import Candidate
from kernelwright.judge.controller import Judge
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Verdict

TASK = str(EXPLOITS / "small" / "rmsnorm.py")
SOURCE = (Path(__file__).parent.parent / "kernels" / "rmsnorm" / "simd.cpp").read_text()
SETTINGS = Settings(baselines=(), effort=Sampling(2, 2), safety=False, domain=False)


def hidden(verdict: Verdict) -> list[str]:
    assert verdict.verdict is Outcome.accepted, verdict.evidence
    return sorted(result.label for result in verdict.workloads if result.hidden)


@pytest.mark.parametrize(
    "rolled",
    [
        SOURCE + "\n// once more\n",
        "/* once more */" + SOURCE,
        SOURCE.replace("\n", "\n\n"),
        SOURCE.replace("float squares", "float /* again */ squares"),
    ],
    ids=["a line behind it", "a word before it", "empty lines", "a word inside"],
)
def test_a_comment_draws_no_other_hidden_workloads(judge: Judge, rolled: str) -> None:
    before = judge.judge(TASK, Candidate("cpp", SOURCE, "first"), settings=SETTINGS)
    again = judge.judge(TASK, Candidate("cpp", rolled, "second"), settings=SETTINGS)
    assert before.candidate != again.candidate
    assert hidden(before) == hidden(again)
