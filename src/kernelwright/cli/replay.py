"""`kernelwright replay`: repeats a verdict from its certificate, or lists the certificates of an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel
from rich.table import Table

from kernelwright.archives import SEPARATOR, split_name
from kernelwright.cli.views.output import Progress, console, plain, print_json
from kernelwright.devices.names import Device, device_named, require
from kernelwright.errors import KernelwrightError
from kernelwright.isolation import levels
from kernelwright.judge import certificate
from kernelwright.judge.certificate import Certificate
from kernelwright.judge.keys import judge_key
from kernelwright.judge.replay import Replay
from kernelwright.judge.replay import replay as repeat
from kernelwright.judge.verdict import SpeedStatus

SCHEMA_VERSION = 1


class ReplayReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: Literal["replay"] = "replay"
    certificate: str
    signed_here: bool
    replay: Replay


class ListedCertificate(BaseModel):
    """`claims` has, for each workload, the lower end over the best baseline; null where its speed is undecided."""

    name: str
    task: str
    candidate: str
    contract: str
    device: str
    issued: str
    verdict: str
    reason: str
    claims: dict[str, float | None]


class CertificatesReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: Literal["replay list"] = "replay list"
    archive: str
    certificates: tuple[ListedCertificate, ...]


def replay(
    given: Annotated[
        str,
        typer.Argument(
            metavar="CERTIFICATE",
            help="A certificate's file, its name, or ARCHIVE.tar.xz::NAME; an archive alone lists its certificates.",
        ),
    ],
    task: Annotated[str | None, typer.Option(help="Where the task's file is now.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Another device of the same kind: cuda:N. By default the certificate's.")
    ] = None,
    isolation: Annotated[
        levels.Level, typer.Option(envvar=levels.ACCEPTED_VARIABLE, help="The lowest isolation level that is accepted.")
    ] = levels.Level.full,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Repeat a verdict from its certificate. Exit code 0: the same; 1: not the same; 2: altered or unreadable."""
    archived = split_name(given)
    if archived is not None and not archived[1]:
        _list(archived[0], json=json)
        return
    issued = certificate.load(given)
    where = _device(issued, device)
    levels.demand(isolation)
    signed_here = issued.judge == certificate.public_key(judge_key())
    if not json:
        _introduce(issued, signed_here=signed_here)
    with Progress(quiet=json) as progress:
        progress.start(issued.candidate.name)
        outcome = repeat(issued, task, progress, where, isolation)
    if json:
        print_json(ReplayReport(certificate=given, signed_here=signed_here, replay=outcome))
    else:
        _show(outcome)
    raise typer.Exit({True: 0, False: 1, None: 3}[outcome.same])


def _list(path: Path, *, json: bool) -> None:
    found = tuple(_listed(name, issued) for name, issued in certificate.load_all(path).items())
    if json:
        print_json(CertificatesReport(archive=str(path), certificates=found))
        return
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("name", "task", "verdict", "claimed on its workloads", "device", "issued"):
        table.add_column(title)
    for one in found:
        claims = ", ".join("undecided" if low is None else f"{low:.2f}×" for low in one.claims.values())
        table.add_row(*map(plain, (one.name, one.task, one.verdict, claims, one.device, one.issued[:10])))
    console().print(table)
    console().print(f"\n  `kernelwright replay {plain(str(path))}{SEPARATOR}NAME` replays one", soft_wrap=True)


def _listed(name: str, issued: Certificate) -> ListedCertificate:
    verdict = issued.verdict
    claims: dict[str, float | None] = {}
    for result in verdict.workloads:
        best = result.best_baseline
        decided = best is not None and result.speed is SpeedStatus.measured
        claims[result.label] = best.speedup.low if best is not None and decided else None
    return ListedCertificate(
        name=name,
        task=issued.task.name,
        candidate=issued.candidate.id,
        contract=issued.candidate.contract,
        device=verdict.conditions.device,
        issued=issued.issued,
        verdict=verdict.verdict,
        reason=verdict.reason,
        claims=claims,
    )


def _device(issued: Certificate, asked: str | None) -> Device:
    then = device_named(issued.settings.device)
    now = device_named(asked) if asked else then
    if now.kind != then.kind:
        raise KernelwrightError(f"the certificate's candidate ran on {then}; it cannot be replayed on {now}")
    require(now)
    return now


def _introduce(issued: Certificate, *, signed_here: bool) -> None:
    out = console()
    signer = "this judge" if signed_here else f"another judge ({issued.judge[:16]}…), whose word it is until replayed"
    out.print(
        f"[bold]{plain(issued.candidate.name)}[/] for {plain(issued.task.name)}: {plain(issued.verdict.verdict)} "
        f"({plain(issued.verdict.reason)}) on {plain(issued.issued)}\n"
        f"  signed by {signer}; judge {plain(issued.environment.judge_version)}, "
        f"sandbox {plain(issued.verdict.conditions.sandbox)}, arena {plain(issued.verdict.conditions.arena)}, "
        f"{plain(issued.verdict.conditions.device)}",
        soft_wrap=True,
    )


def _show(outcome: Replay) -> None:
    out = console()
    word, colour = {True: ("THE SAME", "green"), False: ("NOT THE SAME", "red"), None: ("UNDECIDED", "yellow")}[
        outcome.same
    ]
    out.print(f"[bold {colour}]{word}[/]  {plain(outcome.outcome)}", soft_wrap=True)
    out.print(f"  artefact: {plain(outcome.artefact)}; device: {plain(outcome.device)}", soft_wrap=True)
    for speed in outcome.speeds:
        mark = "overlap" if speed.overlap else "[red]apart[/]"
        then, now = (f"[{low:.2f}, {high:.2f}]" for low, high in (speed.then, speed.now))
        out.print(f"  {plain(speed.workload)} over {plain(speed.baseline)}: {plain(then)}, now {plain(now)}: {mark}")
    if outcome.not_compared:
        count = len(outcome.not_compared)
        out.print(f"  {count} workloads have no measured speed to compare, then or now, or another device")
