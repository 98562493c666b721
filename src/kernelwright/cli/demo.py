"""`make demo`: a search that finds a faster kernel, with proof, and a cheating kernel that is rejected."""

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
from kernelwright.judge.timing.noise import busiest
from kernelwright.judge.verdict import Outcome, author_view
from kernelwright.search.config import SearchConfig
from kernelwright.search.judging import JudgeSettings
from kernelwright.search.session import begin, carry_on

EXAMPLES = Path(__file__).parents[3] / "examples"
OPERATION = EXAMPLES / "gated_norm.py"
BUDGET_SECONDS = 150  # a quiet machine has its best after about 80 s; a noisy one holds its final again
BUDGET = f"6evals,{BUDGET_SECONDS}s"
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
    console().print(
        'Next: optimize a function of yours from Python (README.md, "From Python"), or a task file:\n'
        "  .venv/bin/kernelwright optimize ./your_task.py"
    )


def _search() -> None:
    out = console()
    out.print(
        f"1. Search for a kernel that beats eager PyTorch and torch.compile on this CPU: [bold]{OPERATION.name}[/].\n"
        "   Templates write the candidates (no language model); the judge measures and checks each one.\n"
        f"   It takes up to {BUDGET_SECONDS} seconds, at isolation level {levels.capabilities().level}.\n",
        soft_wrap=True,
    )
    if busy := busiest():
        out.print(f"   Other programs are busy, so speeds may stay undecided: {', '.join(busy)}.\n", soft_wrap=True)
    settings = JudgeSettings()
    short = replace(settings, final=replace(settings.final, effort=Sampling(least=12, most=150, step=12, seconds=20.0)))
    session = begin(SearchConfig(task=str(OPERATION), isolation=levels.Level.none))
    with view_for(out, quiet=False) as view:
        state = carry_on(session, BUDGET, view, no_server=True, settings=short, isolation=levels.Level.none)
    show_search(out, state, session.folder)
    if state.best is None:
        out.print(
            "  Without a best kernel, speeds could not be decided: the machine is too busy. Try again when it is idle."
        )
    out.print()


def _cheat() -> bool:
    out = console()
    out.print(
        f"2. Judge a cheat: a kernel for [bold]{CHEATED}[/] that returns a cached result when it sees a buffer again.\n"
    )
    with Judge(Settings(baselines=(), public_only=True, isolation=levels.Level.none)) as judge, Progress() as progress:
        progress.start(CHEAT)
        verdict = judge.judge(CHEATED, read_source(EXAMPLES / CHEAT), progress)
        progress.clear()
    show(out, author_view(verdict))
    return verdict.verdict is Outcome.rejected


if __name__ == "__main__":
    main()
