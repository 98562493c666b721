"""`kernelwright optimize`: searches for a faster kernel, and proves what it found.

Its options are those of `SearchConfig`, from which the command's parameters are made.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.markup import escape

from kernelwright.cli.views.output import complain, console, print_json
from kernelwright.cli.views.search_report import how_to_resume, report, show
from kernelwright.cli.views.search_view import view_for
from kernelwright.errors import KernelwrightError
from kernelwright.search.config import (
    FIELDS,
    OPTIONS,
    RESUMABLE,
    SearchConfig,
    accepted_level,
    config_from,
    flag_of,
    refuse_with_resume,
)
from kernelwright.search.core import budget as budgets
from kernelwright.search.core.events import StopReason
from kernelwright.search.core.state import State
from kernelwright.search.journal import NAME as JOURNAL
from kernelwright.search.models import Recorded
from kernelwright.search.origin import begun_here
from kernelwright.search.session import begin, carry_on, estimated, find, limit_of, resumed
from kernelwright.search.summary import beats_baseline, is_proved

_RUNS = OPTIONS["runs"]
Root = Annotated[Path, typer.Option("--runs", envvar=_RUNS.variable, help=_RUNS.help)]


def with_search_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with a parameter for each option of `SearchConfig`, in place of `**given`."""
    hints = get_type_hints(SearchConfig)
    made = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if isinstance(FIELDS[name].default, tuple) else FIELDS[name].default,
            annotation=Annotated[
                _on_the_command_line(hints[name]),
                typer.Option(flag_of(name), help=option.help, min=option.least, envvar=option.variable),
            ],
        )
        for name, option in OPTIONS.items()
    ]
    own = inspect.signature(command, eval_str=True).parameters.values()
    kept = [one.replace(kind=one.KEYWORD_ONLY) for one in own if one.kind is not one.VAR_KEYWORD]
    command.__signature__ = inspect.Signature([*kept, *made])  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in (*kept, *made)}
    return command


def _on_the_command_line(hint: Any) -> Any:
    """Several values are a list there."""
    if hint == tuple[str, ...]:
        return list[str] | None
    return list[Path] | None if hint == tuple[Path, ...] else hint


@with_search_options
def optimize(
    context: typer.Context,
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK", help="A built-in task, its gradient (NAME:backward), a task file, or a KernelBench file."
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(help="Continue this run (its name or directory). A run of another installation also needs TASK."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
    **given: Any,
) -> None:
    """Search for a faster kernel.

    Exit code 0: the best kernel is proved faster than every baseline; 1: it is not, or there is none; 2: bad usage;
    3: interrupted, or the machine ran out of memory or disk.
    """
    began = context.obj if isinstance(context.obj, float) else time.monotonic()
    if given["budget"] is not None:
        budgets.parse(given["budget"])
    recorded = Recorded(given["record"], given["replay"])
    if resume is not None:
        foreign = task is not None and _begun_elsewhere(resume, given["runs"])
        _refuse_others(context, ("task",) if foreign else ())
        session = resumed(find(resume, given["runs"]), began, task)
    elif task is None:
        raise KernelwrightError("name a task to optimize (`kernelwright tasks list`), or a run to continue (--resume)")
    else:
        session = begin(config_from(task, given), began)
    limit = limit_of(session.folder, given["budget"])
    out = console()
    if not json:
        out.print(escape(f"run {session.folder}"), soft_wrap=True)
        cost = estimated(session, limit, recorded)
        if cost is not None:
            out.print(escape(f"estimate: {cost}"), soft_wrap=True)
    with view_for(out, quiet=json) as view:
        state = carry_on(
            session,
            limit,
            view,
            no_server=given["no_server"],
            recorded=recorded,
            isolation=accepted_level(given["isolation"]),
        )
    _end(state, session.folder, json=json)


def _begun_elsewhere(run: str, root: Path) -> bool:
    """Whether there is such a run, and another installation began it: it goes on only with a task that is named."""
    try:
        folder = find(run, root)
    except KernelwrightError:
        return False
    return (folder / JOURNAL).is_file() and not begun_here(folder)


def _refuse_others(context: typer.Context, further: tuple[str, ...]) -> None:
    """Options that --resume does not take. Environment variables are not for one command alone."""
    allowed = (*RESUMABLE, "json", *further)
    given = [
        name
        for name in context.params
        if name not in (*allowed, "resume") and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        names = ["TASK" if name == "task" else flag_of(name) for name in given]
        raise refuse_with_resume("--resume", names, [flag_of(name) for name in allowed])


def _end(state: State, folder: Path, *, json: bool) -> None:
    interrupted = state.stopped is not None and state.stopped.reason is StopReason.interrupted
    if json:
        print_json(report(state, folder, "optimize"))
    else:
        show(console(), state, folder, resume=not interrupted)
    if interrupted:
        complain(f"interrupted; continue with: {how_to_resume(state, folder)}")
        raise typer.Exit(3)
    raise typer.Exit(0 if beats_baseline(state) and is_proved(state) else 1)
