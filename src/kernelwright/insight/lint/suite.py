"""Lint of a whole suite: one row a problem, at small sizes, within a time each, and nothing lost on the way.

Rows are appended to a file as they come, where one is given, and a later run goes on from there.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from kernelwright.errors import KernelwrightError
from kernelwright.insight.lint.finding import LintFinding, Severity

SECONDS = 120.0  # for one problem, its tracing included


@dataclass(frozen=True)
class SuiteRow:
    """What lint says of one problem; `fault` is why it says nothing."""

    task: str
    findings: tuple[dict[str, Any], ...] = ()
    fault: str | None = None
    seconds: float = 0.0

    @property
    def errors(self) -> tuple[dict[str, Any], ...]:
        return tuple(one for one in self.findings if one["severity"] == Severity.error)


class _TimeUp(BaseException):
    """Raised into whatever is being computed, where every Exception counts as the reference's own."""


def lint_suite(
    refs: Sequence[str], seed: int, kept: Path | None = None, seconds: float = SECONDS
) -> Iterator[SuiteRow]:
    """In the order of `refs`. What was kept for the same seed is not looked at again."""
    known = {row.task: row for row in _read(kept, seed)} if kept is not None else {}
    for ref in refs:
        if ref in known:
            yield known[ref]
            continue
        row = _row(ref, seed, seconds)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**asdict(row), "seed": seed}) + "\n")
        yield row


def _row(ref: str, seed: int, seconds: float) -> SuiteRow:
    from kernelwright.insight.lint.run import lint  # imports torch, which takes seconds
    from kernelwright.tasks.resolve import resolve

    began = time.monotonic()
    findings: tuple[LintFinding, ...] = ()
    fault = None
    try:
        with _within(seconds):
            findings = lint(resolve(ref), seed, timed=False)
    except _TimeUp:
        fault = f"{ref}: it took more than {seconds:g} s"
    except KernelwrightError as error:
        fault = str(error)
    except (RuntimeError, ValueError, ArithmeticError, MemoryError) as error:  # of torch, in a stranger's steps
        fault = f"{ref}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    found = tuple({**asdict(one), "rule": str(one.rule), "severity": str(one.severity)} for one in findings)
    return SuiteRow(ref, found, fault, round(time.monotonic() - began, 1))


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Between two operators, which are small here; only the main thread can be interrupted so."""

    def ring(signal_number: int, frame: FrameType | None) -> None:
        raise _TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _read(path: Path, seed: int) -> Iterator[SuiteRow]:
    """Rows that are whole; the last one may have been cut off."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise KernelwrightError(f"{path}: cannot read the rows that were kept: {error}") from error
    for line in lines:
        try:
            said = json.loads(line)
            if said.pop("seed") == seed:
                yield SuiteRow(**{**said, "findings": tuple(said["findings"])})
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
