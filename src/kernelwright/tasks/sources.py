"""Which files a task consists of, and whether they are still what they were when it was read."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

from kernelwright.tasks.loading import module_name

Sources = tuple[tuple[str, str], ...]
INSTALLED = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib")})
PACKAGE = str(Path(__file__).resolve().parents[1])
PACKAGES = {"site-packages", "dist-packages"}  # also those of another environment, which a venv may build on
GONE = "gone"


def sources_of(origin: str) -> Sources:
    """The task's file and the files of the user's modules that it reaches, each with its hash."""
    found = {origin}
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
    return not str(resolved).startswith((*INSTALLED, PACKAGE)) and not PACKAGES.intersection(resolved.parts)


def _hash(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return GONE
