"""`kernelwright judge`: is it right, is it safe, how fast."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Protocol

import typer

from kernelwright.cli.views.output import Progress, console, print_json
from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.registry import contract_named, names, read_source
from kernelwright.contracts.tunables import render
from kernelwright.devices.names import Device, device_named, require
from kernelwright.errors import KernelwrightError
from kernelwright.isolation import levels
from kernelwright.judge import baseline_names
from kernelwright.judge.server.client import ServerJudge
from kernelwright.judge.settings import Sampling, Settings
from kernelwright.judge.verdict import Outcome, Report, Verdict, author_view
from kernelwright.tasks.resolve import TRUST_TASK, prepare


class VerdictView(StrEnum):
    author = "author"
    auditor = "auditor"


def judge(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="A built-in task, its gradient (NAME:backward), a task file, or a KernelBench file."
        ),
    ],
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Kernels to judge: a source file each, or a directory for a kernel with several files.",
            metavar="SOURCE",
        ),
    ],
    contract: Annotated[
        str | None, typer.Option(help=f"How the kernels are written: {', '.join(names())}. Default: by their form.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:N. Default: the device of the contract.")
    ] = None,
    public_only: Annotated[bool, typer.Option("--public-only", help="Skip the hidden workloads.")] = False,
    trials: Annotated[
        int | None, typer.Option(min=2, help="Trials per workload. Default: more on a noisy machine.")
    ] = None,
    view: Annotated[
        VerdictView, typer.Option(help="author: keep hidden workloads secret. auditor: show them.")
    ] = VerdictView.author,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Baseline to compare with, instead of the usual ones ({baseline_names.names_for_help()}); repeatable."
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="Threads for the kernel and the baselines; 0: all cores.")] = 0,
    safety: Annotated[bool, typer.Option(help="Run the sanitizers.")] = True,
    domain: Annotated[
        bool, typer.Option(help="Also check the whole range of declared sizes and special values, untimed.")
    ] = True,
    profile: Annotated[
        bool, typer.Option("--profile", help="On a GPU: profile accepted kernels with Nsight Compute (ncu).")
    ] = False,
    isolation: Annotated[
        levels.Level,
        typer.Option(
            envvar=levels.ACCEPTED_VARIABLE, help="Refuse to run with less isolation than this (docs/isolation.md)."
        ),
    ] = levels.Level.full,
    refuse_pageable: Annotated[
        bool,
        typer.Option("--refuse-pageable", help="Refuse a GPU whose kernels can reach their process's host memory."),
    ] = False,
    no_server: Annotated[
        bool,
        typer.Option(
            "--no-server",
            envvar="KERNELWRIGHT_NO_SERVER",
            help="Do not use the background server; slower to start.",
        ),
    ] = False,
    trust_task: Annotated[bool, typer.Option("--trust-task", help=TRUST_TASK)] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Judge kernels: are they correct, safe, and how fast?

    Exit code 0: all accepted; 1: some rejected; 2: bad usage; 3: the judge could not decide.
    """
    candidates = [render(read_source(path, contract)) for path in sources]
    where = _device(candidates, device)
    _require(where, at_a_glance=not no_server)
    levels.demand(isolation)
    prepare(task, isolation, trust_task=trust_task)
    settings = Settings(
        baselines=baseline_names.chosen(baseline or (), where.kind),
        threads=threads,
        effort=Sampling() if trials is None else Sampling(trials, trials),
        public_only=public_only,
        safety=safety,
        domain=domain,
        profile=profile,
        certify=True,
        device=where,
        isolation=isolation,
        refuse_pageable=refuse_pageable,
    )
    verdicts = _judge_all(_judge(settings, own=no_server), task, candidates, quiet=json, view=view)
    if json:
        shown = tuple(v if view is VerdictView.auditor else author_view(v) for v in verdicts)
        print_json(Report(task=task, results=shown))
    raise typer.Exit(_exit_code(verdicts))


class JudgeLike(AbstractContextManager["JudgeLike"], Protocol):
    """A judge in this process, or a server's."""

    def open(self, task: str) -> object: ...

    def expect(self, task: str, candidates: Sequence[Candidate]) -> None: ...

    def judge(self, task: str, candidate: Candidate, progress: Progress) -> Verdict: ...


def _judge(settings: Settings, *, own: bool) -> JudgeLike:
    if not own:
        return ServerJudge(settings)
    from kernelwright.judge.controller import Judge  # all that judges: not needed where a server does

    return Judge(settings)


def _judge_all(
    judge: JudgeLike, task: str, candidates: list[Candidate], *, quiet: bool, view: VerdictView
) -> list[Verdict]:
    verdicts = []
    with judge as judging, Progress(quiet=quiet) as progress:
        progress.start(task)
        progress("opening the task")
        judging.open(task)
        for number, candidate in enumerate(candidates, 1):
            progress.start(candidate.name)
            judging.expect(task, candidates[number:])
            verdict = judging.judge(task, candidate, progress)
            progress.clear()
            verdicts.append(verdict)
            if not quiet:
                from kernelwright.cli.views.verdicts import show  # not needed for JSON

                show(console(), verdict if view is VerdictView.auditor else author_view(verdict))
    return verdicts


def _device(candidates: list[Candidate], asked: str | None) -> Device:
    """Where the candidates run: what was asked for, if their contract can run there."""
    kinds = {contract_named(candidate.contract).device: candidate for candidate in candidates}
    if len(kinds) > 1:
        one, other = [candidate.name for candidate in kinds.values()][:2]
        raise KernelwrightError(f"{one} and {other} run on different devices: judge them in separate commands")
    (kind, candidate), *_ = kinds.items()
    device = device_named(asked or kind)
    if device.kind != kind:
        raise KernelwrightError(f"{candidate.name}: a {candidate.contract} candidate runs on {kind}, not on {device}")
    return device


def _require(device: Device, *, at_a_glance: bool) -> None:
    try:
        require(device, at_a_glance=at_a_glance)
    except KernelwrightError as error:
        raise type(error)(f"{error}; `kernelwright check` tests CUDA kernels without a GPU") from error


def _exit_code(verdicts: list[Verdict]) -> int:
    outcomes = {verdict.verdict for verdict in verdicts}
    if Outcome.undecided in outcomes:
        return 3
    return 1 if Outcome.rejected in outcomes else 0
