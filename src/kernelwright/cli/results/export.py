"""`kernelwright export`: a found kernel as a package that needs torch alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel

from kernelwright.cli.optimize import Root
from kernelwright.cli.views.output import console, plain, print_json
from kernelwright.search.config import DEFAULT_ROOT
from kernelwright.search.session import find

SCHEMA_VERSION = 1


class ExportedVariant(BaseModel):
    """One kernel of the package. `speedup` is the least that is claimed at a timed workload."""

    direction: Literal["forward", "backward"]
    candidate: str
    dtype: str
    speedup: float
    certificate: str


class ExportReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: Literal["export"] = "export"
    folder: str
    name: str
    operation: str
    wheel: str | None
    kernels: tuple[ExportedVariant, ...]
    notes: tuple[str, ...]  # where a kernel could be used, and is not, and why


def export(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs of one task: its forward, and its backward if there is one."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to create.")],
    name: Annotated[str, typer.Option(help="Name of the package. Default: the task's name and _kernel.")] = "",
    layout: Annotated[
        str, typer.Option(help="package: an installable package and a wheel; hf: Hugging Face's kernel layout.")
    ] = "package",
    arch: Annotated[
        list[str] | None,
        typer.Option(help="GPU architecture to build for, such as sm_90a; repeatable. Default: this machine's."),
    ] = None,
    fast_path: Annotated[
        bool,
        typer.Option("--fast-path", help="Build the C++ host side for this torch into the package; takes a minute."),
    ] = False,
    root: Root = DEFAULT_ROOT,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Export proved kernels as a package that needs only torch."""
    from kernelwright.export.package import export as export_package  # imports torch, which takes seconds
    from kernelwright.export.proof import proved_in

    proved = [proved_in(find(run, root)) for run in runs]
    made = export_package(proved, output, name, layout, arch or (), fast_path=fast_path)
    directions = (("forward", made.manifest.forward), ("backward", made.manifest.backward))
    report = ExportReport(
        folder=str(made.folder),
        name=made.name,
        operation=made.manifest.operation.name,
        wheel=None if made.wheel is None else str(made.wheel),
        kernels=tuple(
            ExportedVariant(
                direction=direction,
                candidate=one.id,
                dtype=one.dtype,
                speedup=one.speedup,
                certificate=one.certificate,
            )
            for direction, variants in directions
            for one in variants
        ),
        notes=made.manifest.notes,
    )
    if json:
        print_json(report)
        return
    for one in report.kernels:
        console().print(
            f"{one.direction} {one.dtype}: {one.candidate}, at least {one.speedup:.2f}× over the best baseline"
        )
    for note in report.notes:
        console().print(plain(note), soft_wrap=True)
    console().print(f"wrote {plain(report.folder)}", soft_wrap=True)
    if report.wheel is not None:
        console().print(f"install it with: pip install {plain(report.wheel)}", soft_wrap=True)
    console().print(f"then: from {made.name} import {report.operation}", soft_wrap=True)
