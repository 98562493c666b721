"""From a traced problem to a task: ranges for its sizes, draws, comparators, and what its document says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from kernelwright.paths import printable
from kernelwright.tasks.declarations import (
    FLOATS,
    Chosen,
    Comparator,
    Draw,
    Family,
    Input,
    TensorInput,
    custom,
    integers,
    normal,
    of_family,
    uniform,
)
from kernelwright.tasks.dims import Sizes, TaskError
from kernelwright.tasks.drawing import draw_inputs, without_data
from kernelwright.tasks.formats import arithmetic
from kernelwright.tasks.imported.bounded import Bounded, TooCostly
from kernelwright.tasks.imported.forms import Bundle
from kernelwright.tasks.imported.rebuild import rebuilt, recipe_of
from kernelwright.tasks.imported.traced import (
    AnyFamily,
    Distribution,
    NodeValue,
    OperatorCall,
    Recipe,
    TracedArgument,
    TracedProblem,
    TracedSize,
)
from kernelwright.tasks.model import ModuleForm, Task, Workload
from kernelwright.tasks.reference import call_reference, run_reference, torch_dtype
from kernelwright.tasks.source_lines import SourceLine

SPREADS = (4.0, 3.0, 2.0, 1.5, 1.25, 1.0)  # how far above its own sizes a problem has to hold, where memory allows it
DIVISORS = (4, 8, 16, 32, 64, 128, 256)  # and how far below: until it is small
LARGE, SMALL = 1 << 30, 8 << 20
TRIED = 64 << 20  # bytes of inputs on which values are looked at before a search begins
MOST_TRIED, SECONDS_TRIED = 4 << 30, 20.0  # for all that a reference makes of them on the way, and for all families
NOTES = {
    "dropout": "Dropout, which draws random numbers, is left out.",
    "batch_statistics": "Batch normalisation is that of training: by the batch; running statistics are not a result.",
    "changed_input": "An argument that the code changes in place is copied first; the copy is not a result.",
    "fixed_sizes": "Not every size that its code might take varies: torch.export cannot solve for all of them.",
    "strided_input": "An input that is not contiguous there is contiguous here.",
    "unwritten_input": "Memory for a result, which it hands to its reference, is not an argument.",
    "values_of_a_file": "Values that its workloads take from a file are drawn instead.",
    "failing_settings": "Some of its settings fail in its own code, and are left out.",
    "drawn_numbers": "Random numbers that its code draws are inputs here.",
    "state_as_input": "State that its module keeps from call to call is an input here.",
    "without_gradients": "No gradient flows through what it computes under no_grad.",
}
HOW = "what the file computes was traced in a sandbox."
BASES = ("out", "result", "output", "made")
MOST_NAMED, MOST_PUBLIC = 8, 8

End = Callable[[TracedSize, float], int]  # the end of a size's range, by how far it goes


def task_of(problem: TracedProblem, bundle: Bundle) -> Task:
    """The task of a problem, named after its file or folder. TaskError names an operator that it may not use."""
    lines = lines_of(problem, bundle)
    made = rebuilt(problem, lines)
    own = {size.name: size.value for size in problem.sizes}
    notes = _notes(problem)
    floats = [argument.dtype for argument in problem.arguments if argument.dtype in FLOATS]
    main = floats[0] if floats else problem.arguments[0].dtype
    outputs = _output_names(problem)
    task = Task(
        made.reference,
        inputs=_inputs(problem, main),
        public=[own],
        hidden={name: (value, value) for name, value in own.items()},
        name=bundle.name,
        doc=" ".join([f"{bundle.name.replace('_', ' ').strip()}, imported: {HOW}", *notes]),
        outputs=outputs,
        dtypes=(main,),
        comparators=_comparators(problem, outputs),
        origin=str(bundle.main.absolute()),
        files=tuple(str(path.absolute()) for path in bundle.files),
        traced=True,
        notes=notes,
        module=_module(problem),
        lines={made.file: {number: lines[node] for number, node in made.nodes.items() if node in lines}},
    )
    _require_unchanged(task)
    task = _with_settings(replace(task, hidden=_ranges(task, problem.sizes)), problem, own)
    if all(low == high for low, high in task.hidden.values()):
        raise TaskError(
            "all its sizes are fixed by its code, so there are no other sizes to test: let Model take any batch, or "
            "write a task file"
        )
    return _in_domain(task, problem)


def lines_of(problem: TracedProblem, bundle: Bundle) -> dict[int, SourceLine]:
    """Where nodes come from, by node. What the tracer says is a claim: a line that no file has is left out."""
    files = {
        name: (str(path.absolute()), content.decode("utf-8", "replace").splitlines())
        for (name, content), path in zip(bundle.content, bundle.files, strict=False)
    }
    found: dict[int, SourceLine] = {}
    for one in problem.lines:
        path, text = files.get(one.file, ("", []))
        if one.line <= len(text):
            found[one.node] = SourceLine(path, one.line, printable(text[one.line - 1].strip()))
    return found


def _require_unchanged(task: Task) -> None:
    """The tracer copies what the code changes in place, so that an honest graph leaves its arguments as they are. A
    graph has no branches: what it changes, it changes in every call."""
    workload = task.public_workloads()[0]
    arguments = without_data(task, workload)
    call_reference(task, arguments)
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor) and value._version:
            raise TaskError(f"its graph changes the argument {name!r} in place")


def _module(problem: TracedProblem) -> ModuleForm | None:
    if problem.initial is None:
        return None
    held = tuple((one.name, one.path) for one in problem.arguments if one.part != "input")
    fixed = tuple((one.place, one.model_dump_json(include={"value"})) for one in problem.fixed)
    return ModuleForm(problem.initial.model_dump_json(), held, fixed)


def _notes(problem: TracedProblem) -> tuple[str, ...]:
    found = [NOTES[note] for note in dict.fromkeys(problem.notes)]
    if problem.apart:
        numbers = ", ".join(map(str, problem.apart[:MOST_NAMED])) + (", …" if len(problem.apart) > MOST_NAMED else "")
        found.append(f"Of its settings, {numbers} differ in more than sizes: @setting={problem.apart[0]} opens one.")
    allowed = problem.tolerance
    if allowed is not None:
        cap = "" if allowed.max_error_cap is None else f", none above {allowed.max_error_cap:g}"
        found.append(
            f"Its own benchmark accepts errors up to {allowed.max_atol:g} + {allowed.max_rtol:g} of the value in "
            f"{allowed.required_matched_ratio:.2%} of the elements{cap}; the judge's tolerance does not depend on it."
        )
    return tuple(found)


def _inputs(problem: TracedProblem, main: str, *, families: bool = True) -> dict[str, Input]:
    """Tensors, with the numbers that the reference is called with between them."""
    found: list[tuple[str, Input]] = [
        (one.name, argument_input(one, main, families=families)) for one in problem.arguments
    ]
    for number in sorted(problem.numbers, key=lambda number: number.place):
        found.insert(number.place, (number.name, number.value))
    return dict(found)


def _with_settings(task: Task, problem: TracedProblem, own: Mapping[str, int]) -> Task:
    """The settings that the graph covers are the public workloads: of many, some from the least to the most."""
    unique = {tuple(setting.sizes.items()): setting.sizes for setting in problem.settings}
    taken = [sizes for sizes in unique.values() if sizes == own or _runs(task, sizes)]
    if len(taken) > MOST_PUBLIC:
        ordered = sorted(taken, key=_footprint(task, own))
        places = [round(i * (len(ordered) - 1) / (MOST_PUBLIC - 1)) for i in range(MOST_PUBLIC)]
        taken = [ordered[place] for place in places]
    if not taken:
        return task
    ends = {name: (low, high, [sizes[name] for sizes in taken]) for name, (low, high) in task.hidden.items()}
    hidden = {name: (min(low, *values), max(high, *values)) for name, (low, high, values) in ends.items()}
    return replace(task, public=taken, hidden=hidden)


def _output_names(problem: TracedProblem) -> tuple[str, ...]:
    taken = set(problem.names)
    if problem.outputs is not None:
        return tuple(problem.outputs)
    free = (name for name in BASES if not any(n.startswith(name) for n in taken))
    base = next(free, "result_of_the_task")
    if len(problem.results) == 1:
        return ("out",) if "out" not in taken else (base,)
    return tuple(f"{base}{index}" for index in range(len(problem.results)))


def argument_input(argument: TracedArgument, main: str, *, families: bool = True) -> TensorInput:
    dtype = None if argument.dtype == main else argument.dtype
    draw = _draw(argument, families=families)
    return TensorInput(tuple(argument.dims), draw, dtype, gradient=argument.part != "buffer")


def _draw(argument: TracedArgument, *, families: bool) -> Draw:
    match argument.draw:
        case AnyFamily(otherwise=otherwise):
            return of_family() if families or otherwise is None else _distribution(otherwise)
        case Distribution():
            return _distribution(argument.draw)
        case Recipe():
            return custom(recipe_of(argument.draw))


def _distribution(found: Distribution) -> Draw:
    if found.of == "integers":
        return integers(int(found.low), found.high if isinstance(found.high, str) else int(found.high))
    if isinstance(found.high, str):
        raise TaskError(f"{found.of} numbers end at {found.high!r}, which is not a number")
    return (normal if found.of == "normal" else uniform)(float(found.low), float(found.high))


# --- where it has to hold --------------------------------------------------------------------------------------------


def _ranges(task: Task, sizes: list[TracedSize]) -> dict[str, tuple[int, int]]:
    """Around the problem's own sizes: upward as far as memory allows, downward until a workload is small.

    A reference may refuse some sizes (a window larger than its image), so that the ends are tried, without data.
    """
    own = {size.name: size.value for size in sizes}
    if not own:
        return {}
    needed = _footprint(task, own)
    most = max(needed(own), LARGE)
    fixed = {argument for argument in own if _is_fixed(task, own, argument)}
    free = [size for size in sizes if size.name not in fixed]
    highs = _end(task, own, free, SPREADS, _above, lambda corner: needed(corner) <= most)
    wanted = next((d for d in DIVISORS if needed(_corner(own, free, d, _below)) <= SMALL), DIVISORS[-1])
    lows = _end(task, own, free, [d for d in reversed(DIVISORS) if d <= wanted] + [2, 1], _below, lambda _: True)
    return {name: (min(lows[name], own[name]), max(highs[name], own[name])) for name in own}


def _above(size: TracedSize, factor: float) -> int:
    high = int(size.value * factor)
    return high if size.most is None else max(size.value, min(high, size.most))


def _below(size: TracedSize, divisor: float) -> int:
    return min(size.value, max(1, size.least, int(size.value // divisor)))


def _corner(own: Sizes, free: list[TracedSize], factor: float, end: End) -> dict[str, int]:
    return {**own, **{size.name: end(size, factor) for size in free}}


def _end(
    task: Task,
    own: Sizes,
    free: list[TracedSize],
    factors: Sequence[float],
    end: End,
    fits: Callable[[Sizes], bool],
) -> Sizes:
    """The farthest corner that fits and that the reference takes, where each size alone is tried as well.

    Where there is none, a size that goes nowhere by itself (the image of a network that ends in a fixed layer) stays,
    and the others go.
    """
    for factor in factors:
        corner = _corner(own, free, factor, end)
        alone = [{**own, size.name: corner[size.name]} for size in free] if len(free) > 1 else []
        goes = corner != own or len(free) < 2
        if goes and fits(corner) and all(_runs(task, sizes) for sizes in (corner, *alone)):
            return corner
    found = dict(own)
    for size in free:
        values = (end(size, factor) for factor in factors)
        tried = ({**found, size.name: value} for value in values)
        found = next((sizes for sizes in tried if fits(sizes) and _runs(task, sizes)), found)
    return found


def _is_fixed(task: Task, own: Mapping[str, int], name: str) -> bool:
    """A size that the reference takes at one value only, though the trace left it open."""
    value = own[name]
    others = [other for other in (value + 1, value - 1, 2 * value, value // 2) if other >= 1]
    return not any(_runs(task, {**own, name: other}) for other in others)


def _runs(task: Task, sizes: Sizes) -> bool:
    workload = Workload(tuple(sizes.items()), task.dtypes[0])
    try:
        results = call_reference(task, without_data(task, workload))
    except TaskError:
        return False
    return all(result.numel() for result in results.values())


def _footprint(task: Task, own: Mapping[str, int]) -> Callable[[Sizes], int]:
    """Bytes of arguments and results; results are taken to grow as the arguments do."""

    def given(sizes: Sizes) -> int:
        tensors = [declared for declared in task.inputs.values() if isinstance(declared, TensorInput)]
        return sum(math.prod(t.shape(sizes)) * torch_dtype(t.dtype or task.dtypes[0]).itemsize for t in tensors)

    workload = Workload(tuple(own.items()), task.dtypes[0])
    results = call_reference(task, without_data(task, workload)).values()
    made = sum(result.numel() * result.element_size() for result in results)
    share = 1 + made / max(1, given(own))
    return lambda sizes: int(given(sizes) * share)


# --- values ----------------------------------------------------------------------------------------------------------


def _in_domain(task: Task, problem: TracedProblem) -> Task:
    """Families where the reference stays finite on them, and otherwise the values that the problem itself draws."""
    if not any(isinstance(argument.draw, AnyFamily) and argument.draw.otherwise for argument in problem.arguments):
        return task
    smallest = Workload(tuple((name, low) for name, (low, _) in task.hidden.items()), task.dtypes[0])
    if _footprint(task, smallest.size_map)(smallest.size_map) > TRIED:
        return task
    end = time.monotonic() + SECONDS_TRIED
    try:
        if all(_is_finite(task, smallest, family, end) for family in task.families):
            return task
    except TooCostly:  # between arguments and results; what a judging takes has limits of its own
        return task
    return replace(task, inputs=_inputs(problem, task.dtypes[0], families=False))


def _is_finite(task: Task, workload: Workload, family: Family, end: float) -> bool:
    inputs = draw_inputs(task, workload, family, torch.Generator().manual_seed(0))
    with Bounded(MOST_TRIED, end - time.monotonic()):
        try:
            results = run_reference(task, inputs).values()
        except TaskError as error:
            if isinstance(error.__cause__, TooCostly):
                raise error.__cause__ from None
            raise
    return all(bool(arithmetic(result).isfinite().all()) for result in results if result.is_floating_point())


INDICES = {"argmax": 0, "argmin": 0, "max": 1, "min": 1, "topk": 1}


def _comparators(problem: TracedProblem, outputs: tuple[str, ...]) -> dict[str, Comparator]:
    """Indices of the largest or smallest of an argument: either side of a tie is right."""
    found: dict[str, Comparator] = {}
    first = len(problem.arguments)
    for name, index in zip(outputs, problem.results, strict=True):
        call = problem.nodes[index - first] if index >= first else None
        if isinstance(call, OperatorCall) and call.op == "sym.getitem" and call.args[1] == 1:
            source = call.args[0]
            call = (
                problem.nodes[source.node - first] if isinstance(source, NodeValue) and source.node >= first else None
            )
            several = True
        else:
            several = False
        if not isinstance(call, OperatorCall) or not call.args:
            continue
        packet, given = call.op.split(".")[1], call.args[0]
        if INDICES.get(packet) != int(several) or not isinstance(given, NodeValue) or given.node >= first:
            continue
        dim, keepdim = _reduced(call, packet)
        if dim is not None:
            found[name] = Chosen(problem.arguments[given.node].name, dim, keepdim)
    return found


def _reduced(call: OperatorCall, packet: str) -> tuple[int | None, bool]:
    place = 2 if packet == "topk" else 1
    dim = call.args[place] if len(call.args) > place else call.kwargs.get("dim", -1 if packet == "topk" else None)
    keepdim = call.args[2] if len(call.args) > 2 else call.kwargs.get("keepdim", False)
    if not isinstance(dim, int) or isinstance(dim, bool):
        return None, False
    return dim, True if packet == "topk" else keepdim is True
