"""`kernelwright calibrate verifiers`: how good models are at telling faults, and whether asking them pays here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kernelwright.cli.optimize import Root
from kernelwright.cli.views.output import console, print_json
from kernelwright.contracts.registry import contract_named
from kernelwright.devices.names import device_named
from kernelwright.errors import CannotDecide, KernelwrightError
from kernelwright.llm.config import read_config
from kernelwright.llm.ensemble import open_ensemble, replayed
from kernelwright.llm.model import CallRecord
from kernelwright.proposers.llm.calibration import (
    FAULTY,
    PUBLISHED,
    SHIPPED,
    Calibration,
    CalibrationSettings,
    calibrated,
    default_path,
    measure_verifiers,
    sampled_questions,
    save_calibration,
)
from kernelwright.proposers.llm.context import PromptContext
from kernelwright.proposers.llm.labelled import Labelled, from_injection, from_pairs
from kernelwright.proposers.llm.machine import shown_device
from kernelwright.proposers.llm.shown import shown_task
from kernelwright.proposers.llm.view import VERIFIERS, PromptStage
from kernelwright.search.config import DEFAULT_ROOT
from kernelwright.search.core import budget as budgets
from kernelwright.search.models import Recorded, from_runs
from kernelwright.search.origin import begun_here
from kernelwright.search.session import find

calibrate = typer.Typer(help="Measure how reliable models are as verifiers.", no_args_is_help=True)
SCHEMA_VERSION = 1
EVALUATION_SECONDS = 5.0  # of a quick judging, where no run tells


class CalibrationReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: str = "calibrate verifiers"
    candidates: int
    questions: int
    published: dict[str, float]
    calibration: Calibration
    saved: str | None


@calibrate.command("verifiers")
def verifiers(
    models: Annotated[list[str] | None, typer.Option(help="A model, such as openai:gpt-5; repeatable.")] = None,
    ensemble: Annotated[Path | None, typer.Option(help="TOML file with models (docs/llm.md).")] = None,
    pairs: Annotated[
        Path | None, typer.Option(help="Folder of exploits and honest twins: exploits.toml, NAME.cpp, NAME.twin.cpp.")
    ] = None,
    run: Annotated[
        list[str] | None, typer.Option(help="Use the candidates and verdicts of this run; repeatable.")
    ] = None,
    most: Annotated[int, typer.Option(min=2, help="Most questions for each verifier and model.")] = 40,
    budget: Annotated[str | None, typer.Option(help="Most to spend, as in 2usd.")] = None,
    evaluation_seconds: Annotated[
        float | None, typer.Option(min=0, help="Seconds that a quick judging takes. Default: as in the runs.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for candidates and injected bugs.")] = 0,
    record: Annotated[Path | None, typer.Option(help="Record every model call in this directory.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Answer from recorded calls; no model is called.")] = None,
    keep: Annotated[bool, typer.Option("--save/--no-save", help="Save the result for --proposer llm.")] = True,
    runs: Root = DEFAULT_ROOT,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Test model verifiers on kernels with known faults.

    Verifiers that cost more than they save are switched off.
    """
    config = read_config(ensemble, models or ())
    folders = [find(name, runs) for name in run or ()]
    for folder in folders:
        if not begun_here(folder):  # its task would be imported, and its verdicts taken for the truth
            raise KernelwrightError(f"{folder}: another installation started this run, so nothing is measured on it")
    past = from_runs(folders)
    labelled = [*(from_pairs(pairs) if pairs is not None else []), *past.labelled]
    if not labelled:
        raise KernelwrightError("there is nothing to measure on: name exploits with --pairs, or runs with --run")
    labelled += from_injection(labelled, seed)
    questions = sampled_questions(labelled, most, seed)
    limit = budgets.parse(budget).usd if budget is not None else None
    names = tuple(member.name for member in config.members)
    Recorded(record, replay).check(asks_models=True)
    opened = open_ensemble(config, limit_usd=limit, record=record) if replay is None else replayed(config, replay)
    calls: list[CallRecord] = []
    with opened as asked:
        asked.on_called = calls.append
        found = measure_verifiers(asked, names, questions, _grounds(), seed)
    if not any(one.count for one in found):
        raise CannotDecide(f"no model answered, so nothing was measured and nothing is kept: {_silence(calls)}")
    settings = CalibrationSettings(
        evaluation_seconds if evaluation_seconds is not None else past.seconds or EVALUATION_SECONDS,
        config.evaluation_usd,
        past.faulty if past.faulty is not None else FAULTY,
    )
    result = calibrated(found, settings)
    place = default_path() if keep and replay is None and result.pays else None
    if place is not None:
        save_calibration(place, result)
    if json:
        told = CalibrationReport(
            candidates=len(labelled),
            questions=len(questions),
            published=PUBLISHED,
            calibration=result,
            saved=str(place) if place else None,
        )
        print_json(told)
    else:
        _show(console(), result, labelled, place, recorded=replay is not None)


def _grounds() -> Callable[[str, str], PromptContext]:
    from kernelwright.tasks.resolve import resolve  # imports torch, which takes seconds

    @cache
    def ground(task: str, contract: str) -> PromptContext:
        device = device_named(contract_named(contract).device)
        resolved = resolve(task, str(device))
        return PromptContext(contract, shown_task(resolved, contract, task), shown_device(device))

    return ground


def _show(out: Console, found: Calibration, labelled: list[Labelled], place: Path | None, *, recorded: bool) -> None:
    out.print(
        f"{len(labelled)} candidates with known faults; an evaluation takes {found.evaluation_seconds:.1f} s here"
    )
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("verifier", "model", "asked", "accuracy", "published", "precision", "recall", "seconds", "usd"):
        table.add_column(title, justify="left" if title in ("verifier", "model") else "right")
    for one in found.measured:
        published = PUBLISHED.get(one.verifier)
        table.add_row(
            one.verifier.removeprefix("verify-"),
            escape(one.member),
            f"{one.count}" + (f" (+{one.unanswered} unanswered)" if one.unanswered else ""),
            *(_part(value) for value in (one.accuracy, published, one.precision, one.recall)),
            f"{one.seconds:.1f}",
            "not known" if one.usd is None else f"{one.usd:.4f}",
        )
    out.print(table)
    if recorded:
        out.print("  answers come from recordings: what asking takes is not known, and nothing is kept")
        return
    for stage in VERIFIERS:
        if stage is PromptStage.verify_cheating:
            continue
        said = "[green]on[/] " if found.pays.get(stage.value, stage in SHIPPED) else "[yellow]off[/]"
        why = found.why.get(stage.value, "not measured on both faulty and right candidates; as it is by default")
        out.print(f"  {said}  {stage.value.removeprefix('verify-')}: {escape(why)}", soft_wrap=True)
    out.print("  on   cheating: finalists are always reviewed, whatever it costs")
    if place is not None:
        out.print(f"  [dim]kept in {escape(str(place))}, which the proposer llm goes by[/]", soft_wrap=True)
    elif not found.pays:
        out.print("  no verifier was measured, and nothing is kept")


def _silence(calls: list[CallRecord]) -> str:
    """Why, as far as the first of them tells."""
    return (
        f"{calls[0].member}: {calls[0].outcome.replace('_', ' ')}: {calls[0].detail}" if calls else "no model was asked"
    )


def _part(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
