"""Loads a task from a Python file. A built-in's file and a user's are loaded by the same code."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import ModuleType

from kernelwright.tasks.faults import blame, located
from kernelwright.tasks.model import Task
from kernelwright.tasks.naming import refuse_unprintable


def load_task(path: Path) -> Task:
    """The `task` that a file defines, named after the file, with the module's docstring."""
    origin = str(path.absolute())
    refuse_unprintable(origin)
    module = _execute(origin, _read(path, origin))
    if not hasattr(module, "task"):
        raise located(origin, None, "the file defines no task: end it with `task = Task(...)`")
    task = module.task
    if not isinstance(task, Task):
        raise located(origin, None, f"`task` is a {type(task).__name__}: end the file with `task = Task(...)`")
    return task.named(path.stem, origin=origin, doc=(module.__doc__ or "").strip())


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


def _execute(origin: str, source: bytes) -> ModuleType:
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
