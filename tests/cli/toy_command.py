"""`kernelwright` with a toy judge that takes its time, for tests that need the command as a process of its own.

SECONDS is how long each judging takes after the first few, which take no time; -1: a task is never opened.

    python -m tests.cli.toy_command SECONDS ARGUMENT...
"""

from __future__ import annotations

import sys
import time
from typing import Any

from tests.cli.test_optimize import Judge
from tests.search import toy

from kernelwright.cli.main import main
from kernelwright.judge.settings import ProgressCallback
from kernelwright.judge.verdict import Verdict
from kernelwright.search import proposing, session

QUICK = 4


class SlowJudge(Judge):
    def open(self, task: str, progress: ProgressCallback, deadline: float | None = None) -> None:
        if seconds < 0:
            time.sleep(3600)

    def judge(self, *arguments: Any) -> Verdict:  # type: ignore[override]
        self.seconds = seconds if len(self.calls) >= QUICK else 0.0
        return super().judge(*arguments)


if __name__ == "__main__":
    seconds = float(sys.argv.pop(1))
    session.ServerJudge = SlowJudge  # type: ignore[assignment,misc]
    session._bounds = lambda task: {}
    proposing.PROPOSERS["templates"] = toy.KIND
    main()
