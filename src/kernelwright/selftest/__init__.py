"""The judge tried on the user's own machine: honest kernels that it must accept, and cheats that it must not.

The sources are plain files beside this one. The first sentence of a cheat says what it tries.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kernelwright.contracts.registry import read_source
from kernelwright.isolation.levels import Level
from kernelwright.judge.controller import Judge
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Reason, VerdictPart

HERE = Path(__file__).parent
TASK = str(HERE / "rmsnorm.py")
EFFORT = Sampling(least=6, most=6)


class SelfTest(VerdictPart):
    """One source and what became of it."""

    name: str
    honest: bool
    tries: str
    verdict: Outcome
    reason: Reason
    seconds: float

    @property
    def as_it_must_be(self) -> bool:
        return self.verdict is (Outcome.accepted if self.honest else Outcome.rejected)


def sources() -> list[tuple[Path, bool]]:
    """Honest ones between the cheats and behind them: what a cheat leaves behind would show on them."""
    cheats = [(path, False) for path in sorted((HERE / "cheats").glob("*.cpp"))]
    honest = [(path, True) for path in sorted((HERE / "honest").glob("*.cpp"))]
    step = -(-len(cheats) // max(len(honest) - 1, 1))
    mixed = honest[:1]
    for number, one in enumerate(honest[1:]):
        mixed += [*cheats[number * step : (number + 1) * step], one]
    return mixed


def run(progress: Callable[[str], None]) -> Iterator[SelfTest]:
    with Judge(Settings(baselines=(), effort=EFFORT, isolation=Level.none)) as judge:
        for path, honest in sources():
            progress(path.stem)
            begin = time.perf_counter()
            verdict = judge.judge(TASK, read_source(path))
            yield SelfTest(
                name=path.stem,
                honest=honest,
                tries="" if honest else first_sentence(path.read_text(encoding="utf-8")),
                verdict=verdict.verdict,
                reason=verdict.reason,
                seconds=time.perf_counter() - begin,
            )


def first_sentence(source: str) -> str:
    comment = " ".join(re.sub(r"^// ?", "", line) for line in source.splitlines() if line.startswith("//"))
    return comment.split(". ")[0].rstrip(".").lower()
