"""Which line of the author's code an operation comes from, so that a refusal can name it.

torch writes a stack trace on every node that it exports; `line_of` finds the author's line in it. Code that was written
for a task, such as the file of a captured function, has a *source map*, from its lines to the author's. It lies beside
the file and not in it: a function that moves down a line is the same task.
"""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kernelwright.paths import printable, write_whole

LONGEST = 100  # characters of a line that are shown
SUFFIX = ".lines.json"
PACKAGE = Path(__file__).resolve().parents[1]
CALLERS = tuple(str(Path(__file__).parent / name) for name in ("exporting.py", "reference.py"))  # of the author's code
MACHINERY = ("module.py", "container.py", "lazy.py")  # of torch.nn.modules: they call layers, and are none
FRAME = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in .*$(?:\n {4,}(?P<text>.*)$)?', re.MULTILINE)


@dataclass(frozen=True)
class SourceLine:
    """A line of code. `text` is empty where the file cannot be read, as in a session of the interpreter."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        """`gate.py:12: return silu(a) * b`, as a person would look for it."""
        text = self.text if len(self.text) <= LONGEST else f"{self.text[:LONGEST]}…"
        return f"{self.place}: {text}" if text else self.place

    @property
    def place(self) -> str:
        path, here = Path(self.file), Path.cwd()
        shown = str(path.relative_to(here)) if here != Path("/") and path.is_relative_to(here) else self.file
        return printable(f"{shown.partition('-packages/')[2] or shown}:{self.line}")


SourceMap = Mapping[str, Mapping[int, SourceLine]]  # by file and line


def line_of(trace: str | None, known: SourceMap | None = None) -> SourceLine | None:
    """The author's line in a stack trace, innermost frame last.

    It is the innermost one outside of torch and of this package or, where a layer of torch itself was given, the
    innermost one of `torch.nn.modules`. A line of a file in `known` is replaced by what that says.
    """
    frames = [
        SourceLine(found["file"], int(found["line"]), printable((found["text"] or "").strip()))
        for found in FRAME.finditer(trace or "")
    ]
    last = max((place for place, one in enumerate(frames) if one.file in CALLERS), default=-1)
    layer: SourceLine | None = None
    for one in reversed(frames[last + 1 :]):
        if known and one.file in known:
            return known[one.file].get(one.line)
        if is_authors(one.file):
            return one
        if layer is None and is_layer(one.file):
            layer = one
    return layer


@cache
def _folders() -> tuple[str, ...]:
    """Of torch and of Python's own modules."""
    found = find_spec("torch")
    torch = found.submodule_search_locations or [] if found is not None else []
    return (*torch, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))


@cache
def is_authors(file: str) -> bool:
    """Not a part of torch, of Python itself or of this package; the reference of a built-in task is its author's."""
    if file.startswith(("<eval_with_key>", "<frozen", "<string>", "torch/")):
        return False
    if file.startswith(f"{PACKAGE}/"):
        return file.startswith(f"{PACKAGE}/tasks/builtin/")
    torch, *standard = _folders()
    inside = any(file.startswith(f"{folder}/") for folder in standard)
    return not (file.startswith(f"{torch}/") or (inside and "-packages/" not in file))


def is_layer(file: str) -> bool:
    """torch shortens its own paths."""
    return "torch/nn/modules/" in file and not file.endswith(MACHINERY)


# --- source maps ------------------------------------------------------------------------------------------------------


def map_beside(file: Path) -> Path:
    return file.with_suffix(SUFFIX)


def write_map(file: Path, lines: Mapping[int, SourceLine]) -> None:
    content = {str(number): list(astuple(one)) for number, one in lines.items()}
    write_whole(map_beside(file), json.dumps(content, indent=0).encode())


def read_map(file: Path) -> dict[int, SourceLine]:
    """What lies beside a file, if anything does: it only serves to word messages."""
    try:
        content = json.loads(map_beside(file).read_bytes())
        return {int(number): _line(*parts) for number, parts in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _line(file: str, line: int, text: str) -> SourceLine:
    return SourceLine(printable(str(file)), int(line), printable(str(text)))
