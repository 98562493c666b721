"""What `make demo` shows: a search that ends in a faster kernel with proof, and a cheat that earns nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelwright.cli.views.output import Progress, complain, console
from kernelwright.cli.views.search_report import show as show_search
from kernelwright.cli.views.search_view import view_for
from kernelwright.cli.views.verdicts import show
from kernelwright.contracts.registry import read_source
from kernelwright.errors import KernelwrightError
from kernelwright.isolation import levels
from kernelwright.judge.controller import Judge
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, author_view
from kernelwright.search.config import SearchConfig
from kernelwright.search.judging import JudgeSettings
from kernelwright.search.session import begin, carry_on

EXAMPLES = Path(__file__).parents[3] / "examples"
OPERATION = EXAMPLES / "gated_norm.py"
BUDGET = "6evals,150s"  # a quiet machine has its best after about 80 s; a noisy one holds its final again
CHEATED, CHEAT = "rmsnorm", "rmsnorm_cheat.cpp"


def main() -> None:
    try:
        _search()
        rejected = _cheat()
    except KernelwrightError as error:
        complain(str(error))
        raise SystemExit(error.exit_code) from None
    if not rejected:
        complain("the demo expected the cheat to be rejected")
        raise SystemExit(1)
    console().print("Try your own: .venv/bin/kernelwright optimize ./your_task.py (README.md shows a task)")


def _search() -> None:
    out = console()
    out.print(
        f"Searching for a kernel that is faster than eager PyTorch and torch.compile for [bold]{OPERATION.name}[/], "
        "on this machine's CPU.\nNo model is asked: templates write the candidates, the judge decides.\n",
        soft_wrap=True,
    )
    out.print(f"Isolation level of the candidates' processes here: {levels.capabilities().level}.\n")
    settings = JudgeSettings()
    short = replace(settings, final=replace(settings.final, effort=Sampling(least=12, most=150, step=12, seconds=20.0)))
    session = begin(SearchConfig(task=str(OPERATION), isolation=levels.Level.none))
    with view_for(out, quiet=False) as view:
        state = carry_on(session, BUDGET, view, no_server=True, settings=short, isolation=levels.Level.none)
    show_search(out, state, session.folder)
    if state.best is None:
        out.print("On a noisy machine a demo may end without a best. `kernelwright judge` says what disturbs it.")
    out.print()


def _cheat() -> bool:
    out = console()
    out.print(f"And a kernel for [bold]{CHEATED}[/] that answers from memory once it has seen a buffer:\n")
    with Judge(Settings(baselines=(), public_only=True, isolation=levels.Level.none)) as judge, Progress() as progress:
        progress.start(CHEAT)
        verdict = judge.judge(CHEATED, read_source(EXAMPLES / CHEAT), progress)
        progress.clear()
    show(out, author_view(verdict))
    return verdict.verdict is Outcome.rejected


if __name__ == "__main__":
    main()
