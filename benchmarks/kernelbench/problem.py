"""One problem, captured, covered, compiled and compared, as a dictionary for the report."""

from __future__ import annotations

import ctypes
import subprocess
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.kernelbench.shrinking import Problem, TooLargeError, problems
from benchmarks.shared.record import load, save

from kernelwright.contracts import Candidate
from kernelwright.contracts.model import BuildFailure, BuildPlan
from kernelwright.contracts.registry import contract_named, host_contract
from kernelwright.contracts.target import HOPPER
from kernelwright.errors import KernelwrightError
from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import TemplateProposer, make
from kernelwright.proposers.templates.backends import renderer_for
from kernelwright.tasks.capture import task_text
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs, run_reference, signature
from kernelwright.tasks.loading import load_task
from kernelwright.tasks.model import ScalarSpec, Signature, Task
from kernelwright.tasks.resolve import resolve

TRIES = 6  # rewritings that run but cannot be captured
OPENED = "as a problem file"  # traced in the sandbox, in training mode
MAX_RANK = 8


class _Argument(ctypes.Structure):
    """What the runner hands to a library: contracts/host_abi.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
    )


def captured(path: Path, folder: Path) -> tuple[Task, dict[str, Any]]:
    """The smallest rewriting that can be captured, and how it was made; kept in the folder for another time.

    What capture cannot take (a module with a state, random numbers, sizes that its code fixes) is opened as the problem
    file that it is.
    """
    file, notes = folder / f"problem_{path.parent.name}_{path.stem}.py", folder / f"{path.parent.name}_{path.stem}.json"
    if notes.exists():
        how = load(notes)
        return resolve(str(file)) if how["mode"] == OPENED else load_task(file), how
    fault: Exception | None = None
    smallest: Problem | None = None
    try:
        for tried, problem in enumerate(problems(path)):
            smallest = smallest or problem
            try:
                file.write_text(task_text(problem.model, problem.inputs))
            except KernelwrightError as error:
                fault = error
                if tried + 1 == TRIES:
                    break
                continue
            how = {"mode": "as it is" if problem.trained else "eval()", "limit": problem.limit}
            save(notes, how)
            return load_task(file), how
    except TooLargeError as error:
        fault = fault or error
    if smallest is None:
        raise fault or TooLargeError("no rewriting is small enough")
    file.write_text(smallest.source)
    how = {"mode": OPENED, "limit": smallest.limit}
    task = resolve(str(file))
    save(notes, how)
    return task, how


def plans(task: Task, contract: str, source: str, form: Signature) -> BuildPlan | BuildFailure:
    candidate = Candidate(contract, source)
    if contract_named(contract).emulated:
        emulation = contract_named(contract).emulation(candidate)
        assert emulation is not None
        return next(iter(emulation.builds((form,), HOPPER, sanitized=False)))
    return host_contract(contract).build_plan(candidate, form, sanitized=False)


def built(plan: BuildPlan, folder: Path) -> ctypes.CDLL:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in plan.files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    library = folder / "kernel.so"
    places = {"source": str(folder), "output": str(library)}
    arguments = [argument.format(**places).replace("-O3", "-O0") for argument in plan.arguments]
    done = subprocess.run(["g++", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        raise ValueError(f"does not build: {(lines or [done.stderr[-300:]])[0]}")
    return ctypes.CDLL(str(library))


def aligned(value: torch.Tensor) -> torch.Tensor:
    room = torch.empty(value.numel() * value.element_size() + 512, dtype=torch.uint8)
    start = -room.data_ptr() % 256
    view = room[start : start + value.numel() * value.element_size()].view(value.dtype).view(value.shape)
    return view.copy_(value)


def compared(task: Task, contract: str, source: str, folder: Path) -> str:
    """What is wrong with the candidate at the captured sizes; nothing when it agrees with float64."""
    workload = task.public_workloads()[0]
    inputs = draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(1))
    form = signature(task, workload)
    plan = plans(task, contract, source, form)
    if isinstance(plan, BuildFailure):
        return f"no plan: {' '.join(plan.lines)[-300:]}"
    library = built(plan, folder)
    tensors = {name: aligned(value) for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    for spec in form.outputs:
        made = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype))
        tensors[spec.name] = aligned(made.fill_(float("nan")) if made.is_floating_point() else made.fill_(1))
    arguments = (_Argument * len(form.arguments))()
    for place, argument in zip(arguments, form.arguments, strict=True):
        if isinstance(argument, ScalarSpec):
            place.integer, place.real = int(argument.value), float(argument.value)
            continue
        place.data = tensors[argument.name].data_ptr()
        place.sizes[: len(argument.shape)] = argument.shape
        place.strides[: len(argument.shape)] = argument.strides
    library.kw_run(arguments)
    exact, eager = run_reference(task, inputs, torch.float64), run_reference(task, inputs)
    return "; ".join(filter(None, (difference(n, tensors[n], exact[n], eager[n]) for n in task.result_names)))


def difference(name: str, made: torch.Tensor, exact: torch.Tensor, eager: torch.Tensor) -> str:
    if not made.is_floating_point():
        return "" if torch.equal(made, eager) else f"{name}: {int((made != eager).sum())} of {made.numel()} differ"
    wide, exact = made.double(), exact.double()
    if not torch.equal(wide.isnan(), exact.isnan()):
        return f"{name}: {int(wide.isnan().sum())} NaN, {int(exact.isnan().sum())} expected"
    if not torch.equal(wide.isinf(), exact.isinf()):
        return f"{name}: {int(wide.isinf().sum())} infinities, {int(exact.isinf().sum())} expected"
    gap, scale = (value.nan_to_num(0.0, 0.0, 0.0) for value in ((wide - exact).abs(), exact.abs()))
    noise = (eager.double() - exact).abs().nan_to_num(0.0, 0.0, 0.0).max()
    wrong = gap > 4 * noise + 2e-5 * scale + 1e-6 * scale.max()
    return f"{name}: {int(wrong.sum())} of {made.numel()} wrong by up to {float(gap.max()):.3g}" if wrong.any() else ""


def line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def report(path: Path, folder: Path, contracts: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"captured": False}
    try:
        task, how = captured(path, folder)
    except (KernelwrightError, TooLargeError) as error:
        return found | {"line": line(error)}
    found |= {"captured": True, **how}
    proposer: TemplateProposer | None = None
    for contract in contracts:
        entry: dict[str, Any] = {"covered": False, "right": False}
        found[contract] = entry
        try:
            # What is recognised is the same for all contracts, and costs more than writing it.
            proposer = (
                replace(proposer, contract=contract, renderer=renderer_for(contract))
                if proposer
                else make(task, contract)
            )
            proposal = proposer.propose(Request(Operator.fresh, 1, 0))[0]
            entry |= {"covered": True, "pattern": proposal.origin.removeprefix("templates ")}
            (folder / f"{path.parent.name}_{path.stem}.{contract}").write_text(proposal.candidate.source)
            wrong = compared(
                task, contract, proposal.candidate.source, folder / f"{path.parent.name}_{path.stem}-{contract}"
            )
            entry |= {"right": not wrong} | ({"line": wrong} if wrong else {})
        except KernelwrightError as error:
            entry["line"] = line(error)
        except Exception as error:  # a fault of ours, which the report must name
            where = traceback.extract_tb(error.__traceback__)[-1]
            entry["line"] = f"{type(error).__name__}: {line(error)} ({Path(where.filename).name}:{where.lineno})"
    return found
