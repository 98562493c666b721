"""`kernelwright report`: what runs came to, as one page to pass on."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel

from kernelwright.cli.optimize import Root
from kernelwright.cli.views.output import console, plain, print_json, print_text
from kernelwright.errors import KernelwrightError
from kernelwright.paths import write_whole
from kernelwright.report.html import page
from kernelwright.report.markdown import markdown
from kernelwright.report.model import Audience, ReportView
from kernelwright.report.subjects import report_view
from kernelwright.search.config import DEFAULT_ROOT

SCHEMA_VERSION = 1


class PageFormat(StrEnum):
    html = "html"
    md = "md"


class ReportedRun(BaseModel):
    name: str
    task: str
    device: str
    score: float | None
    standing: str | None  # of its proof; null where there is no best


class WrittenReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: Literal["report"] = "report"
    file: str
    format: PageFormat
    view: Audience
    bytes: int
    runs: list[ReportedRun]


def report(
    results: Annotated[
        list[str],
        typer.Argument(
            help="Runs: a directory, a name, or ARCHIVE.tar.xz::NAME; an archive or a folder of runs; a certificate.",
            metavar="RUN|RESULTS",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write. Default: report.html; with --format md, the terminal."),
    ] = None,
    format: Annotated[
        PageFormat, typer.Option(help="html: one self-contained page. md: Markdown for a pull request.")
    ] = (PageFormat.html),
    view: Annotated[
        Audience, typer.Option(help="author: safe to share. auditor: also shows hidden workloads.")
    ] = Audience.author,
    root: Root = DEFAULT_ROOT,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Write a report of runs as one HTML page.

    It shows proof, speeds, search, source, and how to replay it.
    """
    found = report_view(results, root, view)
    text = page(found) if format is PageFormat.html else markdown(found)
    if output is None and format is PageFormat.md and not json:
        print_text(text)
        return
    target = output or Path(f"report.{format.value}")
    write_page(target, text)
    if json:
        print_json(_written(found, target, format, len(text.encode())))
    else:
        size = f"{len(text.encode()) / 1000:,.0f} KB"
        shown = ", with hidden workloads" if found.shows_hidden else ""
        console().print(f"wrote {plain(str(target))} ({size}{shown})", soft_wrap=True)


def write_page(target: Path, text: str) -> None:
    """`-o /dev/stdout` and other things that are not files are written to as they are."""
    try:
        if target.exists() and not target.is_file():
            if target.is_dir():
                raise KernelwrightError(f"{target}: is a directory; name a file in it with -o")
            target.write_text(text, encoding="utf-8")
        else:
            write_whole(target, text.encode())
    except OSError as error:
        raise KernelwrightError(f"{target}: {error.strerror}; choose another place with -o") from None


def _written(found: ReportView, target: Path, format: PageFormat, size: int) -> WrittenReport:
    runs = [
        ReportedRun(
            name=run.name,
            task=run.task,
            device=run.device,
            score=run.best.score if run.best else None,
            standing=run.best.standing.value if run.best else None,
        )
        for run in found.runs
    ]
    return WrittenReport(file=str(target), format=format, view=found.audience, bytes=size, runs=runs)
