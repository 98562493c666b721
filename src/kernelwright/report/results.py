"""Result files: the JSON that `optimize --json` and `runs show --json` print, and that benchmarks over suites keep.

Such a file is a claim: it names certificates, and nothing in it is signed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from kernelwright.errors import KernelwrightError
from kernelwright.judge.strangers.bounds import OutOfBoundsError, require_bounded
from kernelwright.judge.verdict import AuthorVerdict, Verdict, VerdictPart
from kernelwright.report.kernel import kernel_view
from kernelwright.report.model import Audience, ProofStanding, RunView

MAX_BYTES = 32 << 20
COMMANDS = ("optimize", "runs show")
UNSIGNED = "a result file says so, and nothing in it is signed"
_VERDICT: TypeAdapter[Verdict | AuthorVerdict] = TypeAdapter(Verdict | AuthorVerdict)


class _Best(VerdictPart, extra="ignore"):
    number: int
    origin: str = ""
    note: str = ""
    score: float | None = Field(default=None, gt=0, lt=1e15)
    verdict: dict[str, Any] | None = None


class ResultReport(VerdictPart, extra="ignore"):
    """What a run came to, as a result file has it; older ones have fewer fields."""

    run: str
    task: str
    contract: str
    device: str
    detail: str = ""
    evaluations: int
    best: _Best | None


def result_reports(path: Path) -> list[ResultReport]:
    """The reports in a file; empty where it is something else."""
    try:
        raw = path.read_bytes() if path.stat().st_size <= MAX_BYTES else b""
        content = json.loads(raw)
        require_bounded(content)
    except OSError as error:
        raise KernelwrightError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError, OutOfBoundsError):
        return []
    try:
        return [ResultReport.model_validate(one) for one in _reports(content)]
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise KernelwrightError(f"{path}: is not a result file that can be read ({place}: {first['msg']})") from None


def _reports(content: Any) -> list[dict[str, Any]]:
    """One, one within what was noted about it, or one for each task of a suite."""
    if not isinstance(content, dict):
        return []
    if content.get("command") in COMMANDS and "best" in content:
        return [content]
    if isinstance(content.get("report"), dict):
        return _reports(content["report"])
    tasks = content.get("tasks")
    return [found for one in tasks.values() for found in _reports(one)] if isinstance(tasks, dict) else []


def result_view(report: ResultReport, audience: Audience) -> RunView:
    best = report.best
    verdict = _verdict(report)
    kernel = None
    if best is not None and verdict is not None:
        kernel = kernel_view(
            verdict,
            None,
            audience,
            standing=ProofStanding.claimed,
            why=UNSIGNED,
            score=best.score,
            number=best.number,
            origin=best.origin,
            note=best.note,
        )
    return RunView(
        name=Path(report.run).name,
        task=report.task,
        task_digest="",
        device=verdict.conditions.device if verdict else report.device,
        contract=report.contract,
        baselines=tuple(dict.fromkeys(one.baseline for w in verdict.workloads for one in w.baselines))
        if verdict
        else (),
        threads=verdict.conditions.threads if verdict else 0,
        begun_here=False,
        began="",
        best=kernel,
        no_best=_no_best(report),
        search=None,
    )


def _baselines(verdict: Verdict | AuthorVerdict | None) -> tuple[str, ...]:
    results = () if verdict is None else verdict.workloads
    return tuple(dict.fromkeys(one.baseline for result in results for one in result.baselines))


def _verdict(report: ResultReport) -> Verdict | AuthorVerdict | None:
    if report.best is None or report.best.verdict is None:
        return None
    try:
        found = _VERDICT.validate_python(report.best.verdict)
    except ValidationError:
        return None  # of an earlier version; the claim is shown without it
    speeds = [one.speedup for result in found.workloads for one in result.baselines]
    if not all(0 < one.low <= one.mid <= one.high for one in speeds):
        raise KernelwrightError(f"{report.run}: its result has speedups that no judge gives")
    return found


def _no_best(report: ResultReport) -> tuple[str, ...]:
    if report.best is None:
        return (report.detail or f"none in {report.evaluations} evaluations",)
    claim = "of undecided speed" if report.best.score is None else f"{report.best.score:.2f}× over the best baseline"
    return (f"claimed best {report.best.number:04d}, {claim}; the file has no verdict on it that this version reads",)
