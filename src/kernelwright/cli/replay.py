"""`kernelwright replay`: repeats verdicts from their certificates, or lists the certificates of an archive."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel
from rich.table import Table

from kernelwright.archives import SEPARATOR, split_name
from kernelwright.cli.views.output import Progress, claimed, console, plain, print_json
from kernelwright.cli.views.replays import (
    ReplayedCertificate,
    ReplayStanding,
    exit_code,
    show_replay,
    show_replays,
)
from kernelwright.devices.names import Device, device_named, require
from kernelwright.errors import KernelwrightError
from kernelwright.isolation import levels
from kernelwright.judge import certificate
from kernelwright.judge.certificate import Certificate, CertificateError
from kernelwright.judge.replay import Replay, ReplaySession
from kernelwright.judge.strangers.trusted import SignedBy, Signer, signature_of
from kernelwright.judge.verdict import SpeedStatus

SCHEMA_VERSION = 1
DATE = 25  # letters of a date with its time


class ReplayReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: Literal["replay"] = "replay"
    certificate: str
    signed_here: bool
    signature: SignedBy
    replay: Replay


class ReplaysReport(BaseModel):
    """Of `replay --all`: one entry for each certificate, replayed or not."""

    schema_version: int = SCHEMA_VERSION
    command: Literal["replay all"] = "replay all"
    certificates: tuple[ReplayedCertificate, ...]


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
        list[str],
        typer.Argument(
            metavar="CERTIFICATE",
            help="A certificate: its file, its name, or ARCHIVE.tar.xz::NAME. An archive alone lists its certificates. "
            "With --all, any number of files, archives and folders.",
        ),
    ],
    every: Annotated[
        bool, typer.Option("--all", help="Replay every certificate in these files, archives and folders.")
    ] = False,
    task: Annotated[
        str | None,
        typer.Option(help="Your copy of the task file. It is executed; its hash must match the certificate."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Another device of the same kind, as in cuda:1. Default: the certificate's.")
    ] = None,
    isolation: Annotated[
        levels.Level,
        typer.Option(
            envvar=levels.ACCEPTED_VARIABLE, help="Refuse to run with less isolation than this (docs/isolation.md)."
        ),
    ] = levels.Level.full,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, help="With --all: start no replay after this many seconds, and replay the quickest first."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Judge a certificate's kernel again, and compare.

    Exit code 0: same outcome; 1: not the same; 2: refused (altered, unreadable or not replayable); 3: this machine
    could not decide. With --all, 0 means that at least one was replayed and every replayed one is the same.
    """
    if every:
        if task is not None:
            raise KernelwrightError("--task is for one certificate; leave out --all")
        _replay_all(given, device, isolation, seconds, json=json)
        return
    if seconds is not None:
        raise KernelwrightError("--seconds limits many replays; use it with --all")
    if len(given) > 1:
        raise KernelwrightError("give one certificate, or --all to replay several")
    _replay_one(given[0], task, device, isolation, json=json)


def _replay_one(given: str, task: str | None, device: str | None, isolation: levels.Level, *, json: bool) -> None:
    archived = split_name(given)
    if archived is not None and not archived[1]:
        _list(archived[0], json=json)
        return
    issued = certificate.load(given)
    where = _device(issued, device)
    levels.demand(isolation)
    signed = signature_of(issued)
    if not json:
        _introduce(issued, signed)
    with Progress(quiet=json) as progress, ReplaySession() as session:
        progress.start(issued.candidate.name)
        outcome = session.replay(issued, task, progress, where, isolation)
    if json:
        here = signed.signer is Signer.here
        print_json(ReplayReport(certificate=given, signed_here=here, signature=signed, replay=outcome))
    else:
        show_replay(console(), outcome)
    raise typer.Exit({True: 0, False: 1, None: 3}[outcome.same])


def _replay_all(
    given: list[str], device: str | None, isolation: levels.Level, seconds: float | None, *, json: bool
) -> None:
    levels.demand(isolation)
    found = certificate.collect(given)
    if not found:
        raise CertificateError(f"{', '.join(given):.200}: no certificate found")
    # Those that share a judge come one after another.
    order = sorted(found, key=lambda name: _place(found[name]) if seconds is None else _cost(found[name]))
    replayed: list[ReplayedCertificate] = []
    until = math.inf if seconds is None else time.monotonic() + seconds
    interrupted = None
    with Progress(quiet=json) as progress, ReplaySession() as session:
        for number, name in enumerate(order, 1):
            progress.start(f"{number} of {len(order)}  {name.rpartition(SEPARATOR)[2]}")
            late = "" if time.monotonic() <= until else "interrupted" if interrupted else "the time was up"
            try:
                replayed.append(_replayed(name, found[name], session, progress, device, isolation, late))
            except KeyboardInterrupt as interrupt:  # what was replayed is shown
                interrupted, until = interrupt, -math.inf
                replayed.append(_replayed(name, found[name], session, progress, device, isolation, "interrupted"))
    if json:
        print_json(ReplaysReport(certificates=tuple(replayed)))
    else:
        show_replays(console(), replayed)
    if interrupted is not None:
        raise interrupted
    raise typer.Exit(exit_code(replayed))


def _place(issued: Certificate | CertificateError) -> tuple[str, int, str]:
    if isinstance(issued, CertificateError):
        return ("", 0, "")
    return (issued.settings.device, issued.settings.threads, issued.task.reference)


def _cost(issued: Certificate | CertificateError) -> tuple[float, str]:
    """Of judging it once more, going by the first time."""
    if isinstance(issued, CertificateError):
        return (0.0, "")
    return (issued.verdict.seconds, issued.task.reference)


def _replayed(
    name: str,
    issued: Certificate | CertificateError,
    session: ReplaySession,
    progress: Progress,
    device: str | None,
    isolation: levels.Level,
    late: str,
) -> ReplayedCertificate:
    """`late` says why it is not replayed any more, or is empty."""
    if isinstance(issued, CertificateError):
        return ReplayedCertificate(name=name, standing=ReplayStanding.refused, why=str(issued))
    about = ReplayedCertificate.of(name, issued, signature_of(issued))
    try:
        where = _device(issued, device)
    except KernelwrightError as error:
        return about.model_copy(update={"standing": ReplayStanding.skipped, "why": str(error)})
    if late:
        return about.model_copy(update={"standing": ReplayStanding.skipped, "why": late})
    try:
        return about.replayed(session.replay(issued, None, progress, where, isolation))
    except KernelwrightError as error:
        return about.model_copy(update={"standing": ReplayStanding.refused, "why": str(error)})


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


def _introduce(issued: Certificate, signed: SignedBy) -> None:
    """What the certificate claims; under which sandbox is said of the replay alone."""
    word = "" if signed.trusted else ", and no more than a claim until it is replayed"
    console().print(
        f"[bold]{claimed(issued.candidate.name)}[/] for {claimed(issued.task.name)}: claimed "
        f"{plain(issued.verdict.verdict)} ({plain(issued.verdict.reason)}) on {claimed(issued.issued[:DATE])}\n"
        f"  {plain(str(signed))}{word}; judge {claimed(issued.environment.judge_version)}, "
        f"{claimed(issued.verdict.conditions.device)}",
        soft_wrap=True,
    )
