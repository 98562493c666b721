"""`kernelwright server`: the process that stays up between commands, with warm baselines."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import BaseModel
from rich.markup import escape

from kernelwright.cli.views.output import console, print_json
from kernelwright.judge.server.client import statuses, stop_all
from kernelwright.judge.server.protocol import ServerStatus
from kernelwright.judge.server.server import IDLE_VARIABLE
from kernelwright.judge.wording import counted, duration

server = typer.Typer(help="Show or stop the background server of the judge.", no_args_is_help=True)
SCHEMA_VERSION = 1


class ServerReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: str
    running: list[ServerStatus] = []
    stopped: int = 0


@server.command("status")
def status(json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False) -> None:
    """Show whether a server is running, and what it does."""
    found = statuses()
    if json:
        print_json(ServerReport(command="server status", running=found))
        return
    if not found:
        console().print("no server is running; `kernelwright judge` and `optimize` start one")
    for one in found:
        _show(one)


def _show(one: ServerStatus) -> None:
    left = max(0.0, one.idle_limit_seconds - one.idle_seconds)
    busy = one.callers > 1  # one caller is the one that asks
    state = "busy" if busy or one.waiting else f"idle, stops in {duration(left)} unless it is used ({IDLE_VARIABLE})"
    out = console()
    up = f"version {escape(one.version)}, up for {duration(one.up_seconds)}"
    out.print(f"[bold]process {one.pid}[/]  on {one.device}, {up}, {state}")
    memory = f"{one.memory_bytes / 2**20:.0f} MiB including baselines"
    tasks = ", ".join(one.tasks) or "none"
    out.print(f"  judged {one.judged}; waiting {one.waiting}; restarted {one.restarts} times; {memory}")
    out.print(f"  tasks open: {escape(tasks)}", soft_wrap=True)


@server.command("stop")
def stop(json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False) -> None:
    """Stop the server after the current evaluation."""
    count = stop_all()
    if json:
        print_json(ServerReport(command="server stop", stopped=count))
    else:
        console().print(f"stopped {counted(count, 'server')}" if count else "no server was running")
