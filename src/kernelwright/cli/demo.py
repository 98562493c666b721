"""What `make demo` shows: an honest kernel and a cheating twin before the judge."""

from __future__ import annotations

from pathlib import Path

from kernelwright.cli.output import complain, console
from kernelwright.cli.progress import Progress
from kernelwright.cli.verdicts import show
from kernelwright.contracts.candidate import read_candidate
from kernelwright.errors import KernelwrightError
from kernelwright.judge.controller import Judge
from kernelwright.judge.settings import Settings
from kernelwright.judge.verdict import Outcome, author_view

EXAMPLES = Path(__file__).parents[3] / "examples"
TASK = "rmsnorm"


def main() -> None:
    out = console()
    out.print(
        f"Judging two kernels for [bold]{TASK}[/] against eager PyTorch and torch.compile, on this machine's CPU.\n"
        "One is honest; the other answers from memory once it has seen a buffer.\n"
    )
    try:
        with Judge(Settings()) as judge, Progress() as progress:
            outcomes = []
            for name in ("rmsnorm.cpp", "rmsnorm_cheat.cpp"):
                progress.start(name)
                verdict = judge.judge(TASK, read_candidate(EXAMPLES / name, "cpp"), progress)
                progress.clear()
                show(out, author_view(verdict))
                outcomes.append(verdict.verdict)
    except KernelwrightError as error:
        complain(str(error))
        raise SystemExit(error.exit_code) from None
    if outcomes != [Outcome.accepted, Outcome.rejected]:
        complain("the demo expected one accepted and one rejected kernel")
        raise SystemExit(1)
    out.print("Try it: .venv/bin/kernelwright judge rmsnorm examples/rmsnorm.cpp")


if __name__ == "__main__":
    main()
