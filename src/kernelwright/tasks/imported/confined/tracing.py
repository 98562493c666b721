"""Runs a stranger's task without data and writes down what it computes and how its arguments are drawn.

    python -I -S -B -c "import sys; sys.path[:0] = [...]; ..."  FOLDER OUTPUT

FOLDER holds the files of the task and `bundle.json`, which says what they are. OUTPUT becomes JSON: the traced problem
(`traced.TracedProblem`), or {"error": one line}.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.exporting import export_call
from kernelwright.tasks.imported.confined.case import Bench, BundleFiles, ReferenceCase, placed, with_numbers
from kernelwright.tasks.imported.confined.modules import (
    recurrent_layers_whole,
    register_plain_tensors,
    state_kept,
    with_state_as_inputs,
)
from kernelwright.tasks.imported.confined.openers import OPENERS, problem_case
from kernelwright.tasks.imported.confined.settings import (
    ChosenSetting,
    choose,
    compared,
    further_settings,
    stretch,
    varying_axes,
)
from kernelwright.tasks.imported.confined.surgery import purify
from kernelwright.tasks.imported.confined.tape import Tape, Untraceable
from kernelwright.tasks.imported.confined.writing import ProblemWriter, held_inputs

Data = dict[str, Any]
LONGEST = 300
FEWER = (None, 1, 0)  # how many sizes of each tensor vary, where torch cannot follow all of them


@dataclass(frozen=True)
class Opened:
    """A problem's module and what it made without data."""

    model: Any
    inputs: tuple[Any, ...]
    tape: Tape
    fake: FakeTensorMode


def trace(files: BundleFiles, form: str, setting: int | None = None) -> Data:
    bench = Bench(files.folder)
    chosen = choose(OPENERS[form](files), bench, setting)
    wider = stretch(chosen, bench)
    found, writer = written(wider or chosen, bench)
    settings, apart = _settings(wider or chosen, bench, found, writer)
    if wider is not None and chosen.number not in [one["number"] for one in settings]:  # 1 is special to its code
        found, writer = written(chosen, bench)
        settings, apart = _settings(chosen, bench, found, writer)
    notes = [*found["notes"], *(["failing_settings"] if chosen.failed else [])]
    return {**found, "settings": settings, "apart": apart, "notes": notes}


def _settings(chosen: ChosenSetting, bench: Bench, found: Data, writer: ProblemWriter) -> tuple[list[Data], list[int]]:
    return further_settings(chosen, found, writer.declared, lambda case: _compared(case, bench, chosen))


def written(chosen: ChosenSetting, bench: Bench) -> tuple[Data, ProblemWriter]:
    try:
        found, writer = _written(chosen, bench)
    except TaskError:
        other = with_numbers(chosen.case, bench)
        if other is None:
            raise
        return _written(replace(chosen, case=other, varying=varying_axes(other, [other])), bench)
    other = with_state_as_inputs(chosen.case) if not found["sizes"] else None
    if other is None:
        return found, writer
    return _written(replace(chosen, case=other, varying=varying_axes(other, [other])), bench)


def _written(chosen: ChosenSetting, bench: Bench) -> tuple[Data, ProblemWriter]:
    case = chosen.case
    exported, fixed = _exported(case, bench, chosen.varying)
    unwritten = {node.name for node, leaf in held_inputs(exported, case) if bench.tape.is_unwritten(leaf.value)}
    notes = purify(exported, unwritten)
    writer = ProblemWriter(bench, exported, case, unwritten)
    return writer.problem([*notes, *fixed, *case.notes]), writer


def _compared(case: ReferenceCase, bench: Bench, chosen: ChosenSetting) -> Any:
    """What another setting computes: a module may be made otherwise by it."""
    return compared(written(replace(chosen, case=case), bench)[0])


def open_problem(module: ModuleType) -> Opened:
    """Under fake tensors nothing is allocated, however large the inputs and parameters are."""
    bench = Bench()
    with bench.making():
        case = problem_case(module)
    return Opened(case.function, case.inputs, bench.tape, bench.fake)


def _exported(case: ReferenceCase, bench: Bench, varying: tuple[frozenset[int], ...]) -> tuple[Any, list[str]]:
    """With all sizes free that may be; where torch cannot solve for them, with the first of each tensor, or none."""
    with bench.fake:
        example = tree_map(_contiguous, case.inputs)
    first: Exception | None = None
    register_plain_tensors(case.function)
    for most in FEWER:
        try:
            with bench.fake, placed(), state_kept(case.function), recurrent_layers_whole():
                own = (str(Path(__file__).parents[2]), "<")
                found = export_call(case.function, example, most=most, varying=varying, own=own, fix="")
        except TaskError as error:
            first = first or error
            continue
        return found, [] if most is None else ["fixed_sizes"]
    assert first is not None
    raise first


def _contiguous(leaf: Any) -> Any:
    """The judge gives contiguous tensors, none a view of another."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return torch.empty(leaf.shape, dtype=leaf.dtype)


def one_line(error: BaseException, folder: Path) -> str:
    """In the author's own terms: the reason, and the line of the file from which it came."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    known = isinstance(error, Untraceable | TaskError)
    reason = text if known else f"{type(error).__name__}: {text}"
    inside = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(f"{folder}/")]
    where = f" ({_line(inside[-1])})" if inside and not isinstance(error, TaskError) else ""
    return reason.replace(f"{folder}/problem.py:", "line ").replace(f"{folder}/", "")[:LONGEST] + where


def _line(frame: traceback.FrameSummary) -> str:
    name = Path(frame.filename).name
    return f"line {frame.lineno}" if name == "problem.py" else f"{name}:{frame.lineno}"


def _spent() -> Data:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_mib": used.ru_maxrss >> 10}


def trace_folder(folder: Path) -> Data:
    said = json.loads((folder / "bundle.json").read_text())
    return trace(BundleFiles(folder, folder / said["main"]), said["form"], said["setting"])


def main(folder: Path, output: Path, call: Callable[[Path], Data] = trace_folder) -> int:
    try:
        made: Data = {**call(folder), "spent": _spent()}
        text = json.dumps(made, allow_nan=False)
    except BaseException as error:  # whatever a problem does, SystemExit included, is its fault
        text = json.dumps({"error": one_line(error, folder)})
    output.write_text(text, encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # no thread or exit handler of the problem goes on


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
