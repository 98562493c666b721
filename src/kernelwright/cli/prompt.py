"""`kernelwright prompt`: exactly what a model would be sent, without sending it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from kernelwright.cli.optimize import Root
from kernelwright.cli.views.output import print_json, print_text
from kernelwright.contracts.registry import names, read_source
from kernelwright.devices.names import device_named
from kernelwright.errors import KernelwrightError
from kernelwright.proposers.llm.context import PromptContext
from kernelwright.proposers.llm.machine import shown_device
from kernelwright.proposers.llm.prompts import page, render
from kernelwright.proposers.llm.shown import shown_source, shown_task
from kernelwright.proposers.llm.view import PromptStage, PromptView
from kernelwright.proposers.model import Operator, Request
from kernelwright.search.config import DEFAULT_ROOT, placed
from kernelwright.search.core.lessons import lessons
from kernelwright.search.core.scheduler import inspirations, request_seed
from kernelwright.search.core.state import Entry, Standing, State
from kernelwright.search.run import look
from kernelwright.search.session import find
from kernelwright.search.task import resolve_task

SCHEMA_VERSION = 1
ABOUT_A_FAILURE = (PromptStage.repair, PromptStage.diagnose_error)
NAME_A_FAILURE = "name a candidate that was rejected, with --run and --number"


class Evolving(StrEnum):
    """The operators that a model evolves kernels by; repair is a stage of its own, and a sample a translation."""

    mutate = Operator.mutate.value
    crossover = Operator.crossover.value
    fresh = Operator.fresh.value


class PromptReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: str = "prompt"
    stage: str
    sha256: str
    system: str
    user: str


def prompt(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="A built-in task, its gradient (NAME:backward), a task file, or a KernelBench file."
        ),
    ],
    stage: Annotated[PromptStage, typer.Option(help="Which prompt.")] = PromptStage.translate,
    run: Annotated[str | None, typer.Option(help="Take kernels and errors from this run.")] = None,
    number: Annotated[
        int | None,
        typer.Option(help="Candidate of the run to ask about. Default: the fastest, or the last rejected."),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Kernel to ask about, without a run.")] = None,
    contract: Annotated[str | None, typer.Option(help=f"How candidates are written: {', '.join(names())}.")] = None,
    device: Annotated[str | None, typer.Option(help="Where they run: cpu, cuda or cuda:N.")] = None,
    operator: Annotated[Evolving, typer.Option(help="For evolve: mutate, crossover or fresh.")] = Evolving.mutate,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the hint and the form of the answer.")] = 0,
    runs: Root = DEFAULT_ROOT,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Print the exact prompt for a model, without sending it."""
    state = look(find(run, runs)) if run is not None else None
    if state is not None and contract is None:
        contract, device = state.run.contract, device or state.run.device
    form, (where, *_) = placed(contract, device)
    about = resolve_task(task, where.kind)
    resolved = about.task
    if state is not None and resolved.name != state.run.task_name:
        raise KernelwrightError(f"the run is about {state.run.task_name}, not {resolved.name}")
    if state is not None:
        about.require_same(state.run)
    told = shown_task(resolved, form, resolved.name)
    bounds = state.run.bounds if state is not None else {}
    ground = PromptContext(form, told, shown_device(device_named(str(where)), resolved.dtypes[0]), bounds)
    view = _view(ground, stage, state, number, source, Operator(operator), seed)
    made = render(view)
    if json:
        print_json(PromptReport(stage=stage.value, sha256=made.sha256, system=made.system, user=made.user))
    else:
        print_text(page(made))


def _view(
    ground: PromptContext,
    stage: PromptStage,
    state: State | None,
    number: int | None,
    source: Path | None,
    operator: Operator,
    seed: int,
) -> PromptView:
    if source is not None:
        if stage in ABOUT_A_FAILURE:
            raise KernelwrightError(f"{stage} is about a failure, and a --source has not been judged: {NAME_A_FAILURE}")
        shown = shown_source(read_source(source, ground.contract))
        view = ground.about(stage, shown)
        return view.model_copy(update={"parents": (shown,), "variety": seed})
    if stage is PromptStage.translate:
        return ground.view(Request(Operator.fresh, 1, request_seed(seed, 1), number=1))
    entry = _entry(state, number, stage)
    assert state is not None
    if stage not in (PromptStage.evolve, PromptStage.repair):
        return ground.about(stage, ground.shown(entry.parent))
    others = inspirations(state, (entry.number,))
    wanted = Operator.repair if stage is PromptStage.repair else operator
    parents: tuple[int, ...] = (entry.number,)
    if wanted is Operator.crossover and others:
        parents, others = (entry.number, others[-1]), others[:-1]
    if wanted is Operator.fresh:
        parents, others = (), inspirations(state)
    request = Request(
        wanted,
        1,
        request_seed(seed, entry.number),
        parents=tuple(state.entries[one].parent for one in parents),
        inspirations=tuple(state.entries[one].parent for one in others),
        lessons=lessons(state),
    )
    return ground.view(request)


def _entry(state: State | None, number: int | None, stage: PromptStage) -> Entry:
    if state is None and stage in ABOUT_A_FAILURE:
        raise KernelwrightError(f"{stage} is about a failure: {NAME_A_FAILURE}")
    if state is None:
        raise KernelwrightError(f"{stage} is about a kernel: name one with --source, or with --run and --number")
    wanted = "rejected" if stage in ABOUT_A_FAILURE else "accepted"
    chosen = number if number is not None else _by_default(state, stage)
    if chosen is None or chosen not in state.entries:
        raise KernelwrightError(f"the run has no candidate {f'that was {wanted}' if chosen is None else chosen}")
    entry = state.entries[chosen]
    if entry.verdict is None:
        raise KernelwrightError(f"candidate {chosen} has no verdict yet")
    if stage in ABOUT_A_FAILURE and entry.standing is not Standing.rejected:
        raise KernelwrightError(
            f"{stage} is about a failure, and candidate {chosen} was {entry.standing}: {NAME_A_FAILURE}"
        )
    return entry


def _by_default(state: State, stage: PromptStage) -> int | None:
    if stage not in ABOUT_A_FAILURE:
        return state.leader
    rejected = (number for number, entry in state.entries.items() if entry.standing is Standing.rejected)
    return max(rejected, default=None)
