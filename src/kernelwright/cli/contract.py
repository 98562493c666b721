"""`kernelwright contract`: what an author has to know to write a candidate."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import BaseModel

from kernelwright.cli.views.output import print_json, print_text
from kernelwright.contracts.brief import Brief, brief
from kernelwright.contracts.registry import contract_named, names

SCHEMA_VERSION = 1


class ContractReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: str = "contract"
    brief: Brief


def contract(
    contract: Annotated[str, typer.Argument(metavar="CONTRACT", help=f"The contract: {', '.join(names())}.")],
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="A built-in task, its gradient (NAME:backward), a task file, or a KernelBench file."
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
    skeleton: Annotated[bool, typer.Option("--skeleton", help="Print only the skeleton, to save as a file.")] = False,
) -> None:
    """Show how to write a kernel for a task.

    Prints the reference, the signature, the rules, and a skeleton that compiles.
    """
    from kernelwright.tasks.resolve import resolve  # imports torch, which takes seconds

    chosen = contract_named(contract)
    description = brief(chosen, resolve(task, chosen.device))
    if json:
        print_json(ContractReport(brief=description))
    else:
        print_text(description.skeleton if skeleton else description.text())
