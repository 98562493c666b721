"""The forms in which strangers write tasks, by the files that they consist of. Nothing is imported or run here.

Every form is a row of `FORMS`: which file makes it that form, and which others go to the tracer with it. What the files
mean is the business of the sandbox (`confined.openers`, one function a form).
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.imported.form import MOST_SOURCE, is_both, is_problem, natural
from kernelwright.tasks.loading import located

MOST_DATA = 4 << 20
DEEPEST = 6  # folders below the one that is listed
KERNELBENCH, ROBUST, DEFINITION, GPU_MODE = "kernelbench", "robust-kbench", "definition", "gpu-mode"
BOTH = (
    "has Model, get_inputs and get_init_inputs, as problems of strangers do, and a task, which would run as your own "
    "code: rename one of them"
)


@dataclass(frozen=True)
class Piece:
    """A file that goes to the tracer under `name`: the first of `places`, relative to the main file's folder."""

    name: str
    places: tuple[str, ...]
    needed: bool = True


@dataclass(frozen=True)
class Form:
    """`main` is the file that makes it this form, also under another name that matches `also`; `backward` is the
    direction that it is for, where there is one file for each."""

    name: str
    main: str
    pieces: tuple[Piece, ...] = ()
    also: str = ""
    backward: bool = False


WORKLOADS = (
    "workload.jsonl",
    "workloads.jsonl",
    "{stem}.jsonl",
    "../workloads/{stem}.jsonl",
    "../../workloads/{folder}/{stem}.jsonl",
)
FORMS: tuple[Form, ...] = (
    Form(ROBUST, "func_backward.py", (Piece("config.json", ("config_backward.json",)),), backward=True),
    Form(ROBUST, "func_forward.py", (Piece("config.json", ("config_forward.json",)),)),
    Form(DEFINITION, "definition.json", (Piece("workload.jsonl", WORKLOADS, needed=False),), also="*.json"),
    Form(
        GPU_MODE,
        "task.yml",
        (
            Piece("reference.py", ("reference.py",)),
            Piece("task.py", ("task.py", "../task.py"), needed=False),
            Piece("utils.py", ("utils.py", "../utils.py"), needed=False),
        ),
    ),
)
DEFINED = frozenset({"axes", "inputs", "outputs", "reference"})


@dataclass(frozen=True)
class Bundle:
    """All that the tracer gets of a task: the form, the main file under `problem`, and the others by name."""

    form: str
    main: Path
    content: tuple[tuple[str, bytes], ...]
    files: tuple[Path, ...] = ()
    setting: int | None = None

    @property
    def source(self) -> bytes:
        return dict(self.content)[self.main_name]

    @property
    def main_name(self) -> str:
        return f"problem{self.main.suffix}"

    @property
    def name(self) -> str:
        """What the task is called: as its file, or as its folder where all main files have one name."""
        named = {form.main for form in FORMS}
        return self.main.absolute().parent.name if self.main.name in named else self.main.stem

    def digest(self) -> bytes:
        whole = hashlib.sha256(f"{self.form} {self.setting}".encode())
        for name, content in self.content:
            whole.update(f"\0{name}\0".encode() + hashlib.sha256(content).digest())
        return whole.digest()


def bundle_of(path: Path, *, backward: bool = False, setting: int | None = None) -> Bundle | None:
    """The files of a stranger's task; None where `path` is not one. TaskError where a file of it is missing."""
    if path.is_dir():
        found = [form for form in FORMS if (path / form.main).is_file() and (backward or not form.backward)]
        found = found or [form for form in FORMS if (path / form.main).is_file()]
        return _bundle(found[0], path / found[0].main, setting) if found else None
    form = next((form for form in FORMS if path.name == form.main or fnmatchcase(path.name, form.also)), None)
    if form is not None and path.is_file():
        return _bundle(form, path, setting)
    source = _problem_source(path)
    return None if source is None else Bundle(KERNELBENCH, path, (("problem.py", source),), (path,), setting)


def _problem_source(path: Path) -> bytes | None:
    """The content of a problem file. What else may be wrong with a path is said by `load_task`."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            source = file.read(MOST_SOURCE + 1)
    except OSError:
        return None
    if is_both(source):
        raise located(str(path.absolute()), None, BOTH)
    return source if is_problem(source) else None


def _bundle(form: Form, main: Path, setting: int | None) -> Bundle:
    content = [(f"problem{main.suffix}", _read(main, main.parent))]
    if form.name == DEFINITION and not _is_definition(content[0][1]):
        raise located(str(main.absolute()), None, f"is not a definition: it needs {', '.join(sorted(DEFINED))}")
    files = [main]
    for piece in form.pieces:
        found = _found(piece, main)
        if found is not None:
            path, root = found
            content.append((piece.name, _read(path, root)))
            files.append(path)
        elif piece.needed:
            raise located(str(main.absolute()), None, f"there is no {piece.places[0]} beside it, which this form needs")
    return Bundle(form.name, main, tuple(content), tuple(files), setting)


def _found(piece: Piece, main: Path) -> tuple[Path, Path] | None:
    """The file, and the folder that it has to lie in."""
    for place in piece.places:
        written = place.format(stem=main.stem, folder=main.absolute().parent.name)
        up = written.count("../")
        root = (main.absolute().parent, *main.absolute().parents[1:])[up]
        path = root / written.replace("../", "")
        if path.is_file():
            return path, root
    return None


def _read(path: Path, root: Path) -> bytes:
    """A regular file below `root`. A link that leads elsewhere is not followed: a stranger's folder may hold any."""
    origin = str(path.absolute())
    try:
        if not path.resolve().is_relative_to(root.resolve()):
            raise located(origin, None, "is a link to a file outside of its folder, which is not followed")
        if not stat.S_ISREG(path.stat().st_mode):
            raise located(origin, None, "is not a regular file")
        most = MOST_SOURCE if path.suffix == ".py" else MOST_DATA
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise located(origin, None, f"cannot read the file: {error.strerror}") from error
    if len(content) > most:
        raise located(origin, None, f"has more than {most >> 20} MiB")
    return content


def _is_definition(content: bytes) -> bool:
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and set(said) >= DEFINED


def main_file(path: Path) -> Path:
    """The file that a name leads to, also where the name is a folder."""
    bundle = bundle_of(path) if path.is_dir() else None
    return path if bundle is None else bundle.main


def tasks_in(folder: Path) -> tuple[Path, ...]:
    """The tasks of a folder and of those below it, whatever their form, in the order in which a person counts."""
    if not folder.is_dir():
        raise TaskError(f"{folder}: this is not a folder: name one that holds tasks, or the task itself")
    found = sorted(_walked(folder, DEEPEST), key=natural)
    if not found:
        raise TaskError(f"{folder}: holds no task in a form that is known (docs/tasks.md lists them)")
    return tuple(found)


def _walked(folder: Path, deeper: int) -> Iterator[Path]:
    """A folder that is a task is listed as one, and so is each file that is one by itself."""
    if any((folder / form.main).is_file() for form in FORMS):
        yield folder
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise TaskError(f"{folder}: cannot read the folder: {error.strerror}") from error
    for path in entries:
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _walked(path, deeper - 1) if deeper else ()
        elif path.suffix == ".py" and path.is_file():
            if is_problem(_head(path, MOST_SOURCE)):
                yield path
        elif path.suffix == ".json" and path.is_file() and _is_definition(_head(path, MOST_DATA)):
            yield path


def _head(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError:
        return b""
