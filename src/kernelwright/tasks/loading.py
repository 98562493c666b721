"""Loads a task from a Python file, says in one line what is wrong with it, and knows which files it consists of.

A built-in's file and a user's are loaded by the same code.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kernelwright.paths import printable
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.source_lines import read_map

if TYPE_CHECKING:
    from kernelwright.tasks.model import Task

LONGEST_SUMMARY = 300


def shown_path(origin: str) -> str:
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
    text = text if len(text) <= LONGEST_SUMMARY else text[:LONGEST_SUMMARY] + "..."
    return text if isinstance(error, TaskError) else f"{type(error).__name__}: {text}"


def located(origin: str, line: int | None, message: str) -> TaskError:
    """Of a file that was written for a task, the author's own line."""
    known = read_map(Path(origin)).get(line) if line is not None else None
    if known is not None:
        return TaskError(f"{known.place}: {message}{f' ({known.text})' if known.text else ''}")
    where = shown_path(origin) if line is None else f"{shown_path(origin)}:{line}"
    return TaskError(f"{where}: {message}")


def blame(error: BaseException, origin: str, what: str = "") -> TaskError:
    """`error` as a TaskError that names the place in the task's file from which it came."""
    return located(origin, line_in(error, origin), f"{what}: {summary(error)}" if what else summary(error))


def refuse_unprintable(path: str) -> None:
    """A task is named in messages, journals and certificates, which are text, and read back from there."""
    if not path.isprintable():
        raise TaskError(f"{printable(path)}: has characters that cannot be printed: rename the file, or its folder")


def load_task(path: Path) -> Task:
    """The `task` that a file defines, named after the file, with the module's docstring."""
    from kernelwright.tasks.model import Task

    origin = str(path.absolute())
    refuse_unprintable(origin)
    module = execute(origin, _read(path, origin))
    if not hasattr(module, "task"):
        raise located(origin, None, "the file defines no task: end it with `task = Task(...)`")
    task = module.task
    if not isinstance(task, Task):
        raise located(origin, None, f"`task` is a {type(task).__name__}: end the file with `task = Task(...)`")
    named = task.named(path.stem, origin=origin, doc=(module.__doc__ or "").strip())
    lines = read_map(path)
    return replace(named, lines={origin: lines}) if lines else named


def module_name(origin: str) -> str:
    return f"kernelwright_task_{hashlib.sha256(origin.encode()).hexdigest()[:12]}"


def _read(path: Path, origin: str) -> bytes:
    try:
        return path.read_bytes()
    except IsADirectoryError as error:
        raise located(origin, None, "this is a directory: name the task's file in it") from error
    except FileNotFoundError as error:
        raise located(origin, None, "there is no such file: check the path") from error
    except OSError as error:
        raise located(origin, None, f"cannot read the file: {error.strerror}") from error


def execute(origin: str, source: bytes) -> ModuleType:
    """Runs the file as a module of its own, registered because torch.compile looks modules up by name."""
    module = ModuleType(module_name(origin))
    module.__file__ = origin
    try:
        code = compile(source, origin, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise blame(error, origin, "the file is not valid Python") from error
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    except ImportError as error:
        raise blame(error, origin, "an import failed (install it, or remove the import)") from error
    except (Exception, SystemExit) as error:
        raise blame(error, origin) from error
    return module


Sources = tuple[tuple[str, str], ...]
INSTALLED = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib")})
PACKAGE = str(Path(__file__).resolve().parents[1])
INSTALLED_NAMES = {"site-packages", "dist-packages"}  # also of another environment, which this one looks into
GONE = "gone"


def sources_of(origin: str, files: Iterable[str] = ()) -> Sources:
    """The task's file, `files` beside it, and the files of the user's modules that it reaches, each with its hash."""
    found = {origin, *files}
    waiting = [sys.modules[name]] if (name := module_name(origin)) in sys.modules else []
    while waiting:
        for module in _reached(vars(waiting.pop())):
            path = getattr(module, "__file__", None)
            if path and path not in found and _of_the_user(path):
                found.add(path)
                waiting.append(module)
    return tuple((path, _hash(path)) for path in sorted(found))


def unchanged(sources: Sources) -> bool:
    return all(_hash(path) == digest for path, digest in sources)


def digest(sources: Sources) -> str:
    """One hash for all of a task's files; where they lie does not matter."""
    whole = hashlib.sha256()
    for part in sorted(digest for _, digest in sources):
        whole.update(part.encode())
    return whole.hexdigest()


def _reached(names: Mapping[str, object]) -> Iterable[ModuleType]:
    for value in list(names.values()):
        module = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
        if module is not None:
            yield module


def _of_the_user(path: str) -> bool:
    resolved = Path(path).resolve()
    return not (str(resolved).startswith((*INSTALLED, PACKAGE)) or INSTALLED_NAMES & set(resolved.parts))


def hash_of(path: Path) -> str:
    """Of one file, without importing it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash(path: str) -> str:
    try:
        return hash_of(Path(path))
    except OSError:
        return GONE
