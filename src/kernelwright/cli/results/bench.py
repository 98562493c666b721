"""`kernelwright bench`: a suite of tasks, with candidates from a folder or a search for each, as one results file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import BaseModel

from kernelwright.benchmark.config import DEFAULT_OUTPUT, BenchConfig
from kernelwright.benchmark.leaderboard import leaderboard
from kernelwright.benchmark.metrics import Metrics, claim, metrics
from kernelwright.benchmark.results import Results, RowOutcome, SampleRow
from kernelwright.cli.optimize import with_search_options
from kernelwright.cli.views.boards import show_board
from kernelwright.cli.views.output import Progress, console, plain, print_json
from kernelwright.errors import CannotDecide, KernelwrightError
from kernelwright.search.config import config_from

SCHEMA_VERSION = 1
COLOURS = {RowOutcome.accepted: "green", RowOutcome.rejected: "red"}


class BenchReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: Literal["bench"] = "bench"
    file: str
    judged: int
    planned: int
    unopened: dict[str, str]
    metrics: Metrics


@with_search_options
def bench(
    context: typer.Context,
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="A built-in suite (robust, builtin), a folder such as KernelBench/level1, or a .txt list of tasks.",
        ),
    ],
    candidates: Annotated[
        Path | None,
        typer.Option(help="Judge the candidates in this folder (DIR/TASK.cpp or DIR/TASK/*.cpp) instead of searching."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Results file. If it exists, the benchmark continues it.")
    ] = DEFAULT_OUTPUT,
    name: Annotated[str, typer.Option(help="Name on the leaderboard. Default: the proposer or folder.")] = "",
    only: Annotated[list[str] | None, typer.Option(help="Only tasks with this in their name; repeatable.")] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Draw this many of the tasks at random (see --seed).")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Searches per task, each with its own seed.")] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed samples again.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
    **given: Any,
) -> None:
    """Benchmark candidates or a proposer on a suite of tasks.

    Run the same command again to continue an interrupted benchmark. Exit code 0: every sample has a result; 3:
    interrupted, or the machine ran out of memory or disk.
    """
    from kernelwright.benchmark.session import run_benchmark  # imports torch

    if candidates is not None and _was_given(context, "proposer"):
        raise KernelwrightError("give either --candidates, to judge a folder, or --proposer, to search")
    config = BenchConfig(
        suite=suite,
        candidates=candidates,
        search=config_from("", given),
        name=name,
        only=tuple(only or ()),
        sample=sample,
        samples=samples,
        output=output,
        retry=retry,
    )
    with Progress(quiet=json) as progress:
        try:
            results = run_benchmark(config, BenchView(progress, quiet=json))
        except KeyboardInterrupt:
            raise CannotDecide(
                f"interrupted; {output} has the results so far, and the same command continues it"
            ) from None
    _show(results, output, json=json)


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


class BenchView:
    """Prints a line per sample, and the progress in between."""

    def __init__(self, progress: Progress, *, quiet: bool) -> None:
        self._progress, self._quiet = progress, quiet

    def begin(self, task: str, sample: int, done: int, planned: int) -> None:
        number = f" sample {sample}" if sample else ""
        self._progress.start(f"{done + 1}/{planned} {task}{number}")

    def progress(self, text: str) -> None:
        self._progress(text)

    def row(self, row: SampleRow) -> None:
        if self._quiet:
            return
        self._progress.clear()
        found = claim(row)
        speed = f"{found:.2f}× over the best baseline" if found is not None else plain(row.why)
        if found is None and row.outcome is RowOutcome.accepted:
            speed = "speed undecided"
        colour = COLOURS.get(row.outcome, "yellow")
        console().print(
            f"[{colour}]{row.outcome.value:9}[/]  {plain(row.task)}  {plain(row.name)}  {speed}", soft_wrap=True
        )

    def unopened(self, task: str, why: str) -> None:
        if not self._quiet:
            self._progress.clear()
            console().print(f"[yellow]left out [/]  {plain(task)}  {plain(why)}", soft_wrap=True)


def _show(results: Results, output: Path, *, json: bool) -> None:
    if json:
        print_json(
            BenchReport(
                file=str(output),
                judged=results.judged,
                planned=results.planned,
                unopened=results.unopened,
                metrics=metrics(results),
            )
        )
        return
    if results.rows:
        show_board(console(), leaderboard([results]), tasks=False)
    console().print(
        f"{plain(str(output))}: `kernelwright leaderboard {plain(str(output))}` shows all of it", soft_wrap=True
    )
