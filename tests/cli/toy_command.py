"""`kernelwright` with a toy judge that takes its time, for tests that need the command as a process of its own.

SECONDS is how long each judging takes; -1: a task is never opened.

    python -m tests.cli.toy_command SECONDS ARGUMENT...
"""

from __future__ import annotations

import sys
import time

from tests.cli.test_optimize import Judge
from tests.search import toy

from kernelwright.cli.main import main
from kernelwright.judge.settings import Progress, Settings
from kernelwright.search import proposing, session


class SlowJudge(Judge):
    def __init__(self, settings: Settings, *, own: bool = False) -> None:
        super().__init__(settings, own=own)
        self.seconds = max(0.0, seconds)

    def open(self, task: str, progress: Progress) -> None:
        if seconds < 0:
            time.sleep(3600)


if __name__ == "__main__":
    seconds = float(sys.argv.pop(1))
    session.WarmJudge = SlowJudge  # type: ignore[assignment,misc]
    session._bounds = lambda task: {}
    proposing.PROPOSERS["templates"] = lambda *_: toy.ToyProposer()
    main()
