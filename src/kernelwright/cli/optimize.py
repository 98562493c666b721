"""`kernelwright optimize`: searches for a faster kernel, and proves what it found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from kernelwright.cli.output import complain, console, print_json
from kernelwright.cli.search_report import how_to_resume, report, show
from kernelwright.cli.search_view import view_for
from kernelwright.errors import KernelwrightError
from kernelwright.isolation import levels
from kernelwright.judge import baseline_names
from kernelwright.proposers.llm.proposer import GENERATION, MEASURED
from kernelwright.search import budget as budgets
from kernelwright.search.actions import StopReason
from kernelwright.search.asking import Recorded
from kernelwright.search.judging import Terms
from kernelwright.search.proposing import PROPOSERS
from kernelwright.search.session import (
    DEFAULT_BUDGET,
    DEFAULT_ROOT,
    begin,
    carry_on,
    estimated,
    find,
    limit_of,
)
from kernelwright.search.state import State
from kernelwright.search.wishes import DEFAULT_PLATEAU, RESUMED, ModelWishes, Wishes, began_with, placed

Root = Annotated[Path, typer.Option("--runs", envvar="KERNELWRIGHT_RUNS", help="Where runs are kept.")]


def optimize(
    context: typer.Context,
    task: Annotated[
        str | None, typer.Argument(help="A built-in task, its derived gradient (NAME:backward), or a task file.")
    ] = None,
    proposer: Annotated[str, typer.Option(help=f"Where candidates come from: {', '.join(PROPOSERS)}.")] = "templates",
    policy: Annotated[str, typer.Option(help="What to try next: greedy, islands, random.")] = "islands",
    contract: Annotated[
        str | None, typer.Option(help="The form that candidates take: cpp, cuda; by default that of the device.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where they run: cpu, cuda or cuda:N; by default where the contract does.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help=f"When to stop, as in {budgets.EXAMPLE}; by default {DEFAULT_BUDGET}. It counts from the run's "
            "beginning, also with --resume. A final begun before time is up is finished."
        ),
    ] = None,
    start: Annotated[list[Path] | None, typer.Option(help="Begin from this kernel; repeatable.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this run: its directory, or its name.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="All the chance there is in a search.")] = 0,
    plateau: Annotated[
        int, typer.Option(min=1, help="Stop after so many evaluations that brought nothing faster.")
    ] = DEFAULT_PLATEAU,
    threads: Annotated[int, typer.Option(min=0, help="Threads for candidates and baselines; 0: all cores.")] = 0,
    baseline: Annotated[
        list[str] | None, typer.Option(help=f"Compare with this only ({baseline_names.in_words()}); repeatable.")
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds that `files` waits for an answer.")] = 3600.0,
    ahead: Annotated[int, typer.Option(min=1, help="Requests of `files` that are open at once.")] = 1,
    models: Annotated[
        list[str] | None,
        typer.Option(help="A model for `llm`, such as openai:gpt-5 or http://host/v1#name; repeatable."),
    ] = None,
    ensemble: Annotated[Path | None, typer.Option(help="A TOML file with the models for `llm`.")] = None,
    generation: Annotated[int, typer.Option(min=1, help="Answers that `llm` asks for at a time.")] = GENERATION,
    measure: Annotated[int, typer.Option(min=1, help="How many of them are measured at most.")] = MEASURED,
    record: Annotated[Path | None, typer.Option(help="Keep every call of a model in this directory.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Answer from such a directory; nobody is asked.")] = None,
    runs: Root = DEFAULT_ROOT,
    isolation: Annotated[
        levels.Level, typer.Option(envvar=levels.ACCEPTED_VARIABLE, help="The lowest isolation level that is accepted.")
    ] = levels.Level.full,
    own_oracle: Annotated[
        bool,
        typer.Option(
            "--own-oracle", envvar="KERNELWRIGHT_OWN_ORACLE", help="Use an oracle that ends with this command."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Search for a faster kernel. Exit code 0: there is a best; 1: there is none; 3: interrupted."""
    if budget is not None:
        budgets.parse(budget)
    levels.demand(isolation)
    recorded = Recorded(record, replay)
    if resume is not None:
        _refuse_others(context)
        folder = find(resume, runs)
    else:
        if task is None:
            raise KernelwrightError("name a task to optimize, or a run to go on with (--resume)")
        form, where = placed(contract, device)
        wishes = Wishes(
            task=task,
            proposer=proposer,
            policy=policy,
            contract=form,
            device=where,
            seed=seed,
            plateau=plateau,
            threads=threads,
            baselines=tuple(baseline or ()),
            wait=wait,
            ahead=ahead,
            asked=ModelWishes(models=tuple(models or ()), ensemble=ensemble, generation=generation, measure=measure),
        )
        folder = begin(wishes, start or (), runs, budget or DEFAULT_BUDGET, recorded)
    limit = limit_of(folder, budget)
    out = console()
    if not json:
        out.print(escape(f"run {folder}"), soft_wrap=True)
        cost = estimated(folder, limit, recorded)
        if cost is not None:
            out.print(escape(f"estimate: {cost}"), soft_wrap=True)
    with view_for(out, quiet=json) as view:
        state = carry_on(
            folder, limit, view, own_oracle=own_oracle, recorded=recorded, terms=Terms().accepting(isolation)
        )
    _end(state, folder, json=json)


def _refuse_others(context: typer.Context) -> None:
    """What is given with --resume and would change nothing. Environment variables are not for one command alone."""
    others = (*RESUMED, "json")
    given = [
        name
        for name in context.params
        if name not in (*others, "resume") and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise began_with("--resume", [_option(name) for name in given], [_option(name) for name in others])


def _option(name: str) -> str:
    return "TASK" if name == "task" else f"--{name.replace('_', '-')}"


def _end(state: State, folder: Path, *, json: bool) -> None:
    interrupted = state.stopped is not None and state.stopped.reason is StopReason.interrupted
    if json:
        print_json(report(state, folder, "optimize"))
    else:
        show(console(), state, folder, resume=not interrupted)
    if interrupted:
        complain(f"interrupted; go on with: {how_to_resume(state, folder)}")
        raise typer.Exit(3)
    raise typer.Exit(0 if state.best is not None else 1)
