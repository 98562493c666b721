"""`kernelwright trust`: whose certificates count as proof."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from pydantic import BaseModel
from rich.table import Table

from kernelwright.cli.views.output import console, plain, print_json
from kernelwright.judge.strangers import trusted
from kernelwright.judge.strangers.trusted import TrustedKey

trust = typer.Typer(help="Manage the keys whose certificates count as proof.", no_args_is_help=True)
SCHEMA_VERSION = 1
Json = Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")]


class TrustReport(BaseModel):
    """`own` is the key of this installation, which is always trusted; `keys` are those that were added."""

    schema_version: int = SCHEMA_VERSION
    command: Literal["trust"] = "trust"
    own: str
    keys: tuple[TrustedKey, ...]


@trust.command("list")
def list_keys(json: Json = False) -> None:
    """List the keys whose certificates count as proof."""
    keys, own = trusted.trusted_keys(), trusted.own_key()
    if json:
        print_json(TrustReport(own=own, keys=keys))
        return
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("name")
    table.add_column("key", no_wrap=True)
    table.add_row("(this installation)", own)
    for one in keys:
        table.add_row(plain(one.name), one.key)
    console().print(table)


@trust.command("show")
def show_key() -> None:
    """Print this installation's public key, for others to add."""
    print(trusted.own_key())


@trust.command("add")
def add_key(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The public key of a judge: 64 hexadecimal digits.")],
    name: Annotated[str, typer.Option(help="A name for it. Default: the beginning of the key.")] = "",
) -> None:
    """Trust the certificates of another judge.

    Ask its owner for the key. The key in a certificate proves nothing.
    """
    added = trusted.add(key, name)
    console().print(f"trusted: {plain(added.name)} ({added.key})", soft_wrap=True)


@trust.command("remove")
def remove_key(given: Annotated[str, typer.Argument(metavar="KEY|NAME", help="The key, or its name.")]) -> None:
    """Stop trusting a judge."""
    removed = trusted.remove(given)
    console().print(f"no longer trusted: {plain(removed.name)} ({removed.key})", soft_wrap=True)
