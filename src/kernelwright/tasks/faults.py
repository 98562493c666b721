"""Turns whatever goes wrong in a task's file or reference into one line that names the file and the line."""

from __future__ import annotations

import traceback
from pathlib import Path

from kernelwright.tasks.dims import TaskError

LONGEST = 300


def shown(origin: str) -> str:
    """A task's file as a person would type it."""
    path = Path(origin)
    here = Path.cwd()
    return str(path.relative_to(here)) if here != Path("/") and path.is_relative_to(here) else origin


def line_in(error: BaseException, origin: str) -> int | None:
    """The line of `origin` that was being executed when `error` was raised, however deep it was raised."""
    if isinstance(error, SyntaxError) and error.filename == origin:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == origin]
    return lines[-1] if lines else None


def summary(error: BaseException) -> str:
    """The first line of the message, after its type; our own errors already say everything in one line."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    text = text if len(text) <= LONGEST else text[:LONGEST] + "..."
    return text if isinstance(error, TaskError) else f"{type(error).__name__}: {text}"


def located(origin: str, line: int | None, message: str) -> TaskError:
    where = shown(origin) if line is None else f"{shown(origin)}:{line}"
    return TaskError(f"{where}: {message}")


def blame(error: BaseException, origin: str, what: str = "") -> TaskError:
    """`error` as a TaskError that names the place in the task's file from which it came."""
    return located(origin, line_in(error, origin), f"{what}: {summary(error)}" if what else summary(error))
