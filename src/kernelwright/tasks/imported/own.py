"""A problem file that could not be traced and that the user trusts: it is imported and run as the user's own code.

Less is known of it than of a graph: which sizes may vary is tried out for the first one, the batch, alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from kernelwright.tasks.declarations import FLOATS
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.imported.confined import learn
from kernelwright.tasks.imported.confined.tape import Untraceable
from kernelwright.tasks.imported.confined.tracing import Opened, open_problem
from kernelwright.tasks.imported.problem import argument_input
from kernelwright.tasks.imported.traced import TracedArgument
from kernelwright.tasks.loading import blame, execute, located
from kernelwright.tasks.model import Task

BATCH, SPREAD = "batch", 4
NOTE = "imported as trusted: the file itself is run; sizes other than the batch are fixed."


def own_task(path: Path, source: bytes) -> Task:
    origin = str(path.absolute())
    module = execute(origin, source)
    try:
        opened = open_problem(module)
        _settle(opened.model)
        return _task(opened, path, origin)
    except (TaskError, Untraceable) as error:
        raise located(origin, None, str(error)) from error
    except Exception as error:  # whatever the file raises
        raise blame(error, origin) from error


def _settle(model: torch.nn.Module) -> None:
    """As a traced problem is: batch normalisation by the batch, without running statistics, and no dropout."""
    for module in model.modules():
        if "Dropout" in type(module).__name__:
            module.eval()
        if getattr(module, "track_running_stats", False):
            module.track_running_stats = False  # type: ignore[assignment]
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(module, name, None)


def _task(opened: Opened, path: Path, origin: str) -> Task:
    leaves, structure = tree_flatten(opened.inputs)
    inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    state = {**dict(opened.model.named_parameters()), **dict(opened.model.named_buffers())}
    kept = {name: value for name, value in state.items() if not _is_table(opened, value)}
    tables = {name: opened.tape.compute(value) for name, value in state.items() if name not in kept}
    reference = _reference(opened.model, leaves, structure, len(inputs), list(kept), tables)
    batch = int(inputs[0].shape[0]) if inputs[0].dim() else 0
    arguments = [
        *(_argument(opened, f"x{place}", value, batch, "input") for place, value in enumerate(inputs)),
        *(_argument(opened, f"p_{name.replace('.', '_')}", value, 0, "parameter") for name, value in kept.items()),
    ]
    floats = [argument.dtype for argument in arguments if argument.dtype in FLOATS]
    main = floats[0] if floats else arguments[0].dtype
    count = _results(reference, [*inputs, *kept.values()], opened)
    task = Task(
        reference,
        inputs={argument.name: argument_input(argument, main) for argument in arguments},
        public=[{BATCH: batch}],
        hidden={BATCH: (max(1, batch // SPREAD), batch)},
        name=path.stem,
        doc=f"{path.stem.replace('_', ' ').strip()}, {NOTE}",
        outputs=("out",) if count == 1 else tuple(f"out{index}" for index in range(count)),
        dtypes=(main,),
        origin=origin,
    )
    return replace(task, notes=(NOTE,))


def _is_table(opened: Opened, value: torch.Tensor) -> bool:
    return not isinstance(value, torch.nn.Parameter) and learn.is_computed(opened.tape, value)


def _argument(opened: Opened, name: str, value: torch.Tensor, batch: int, part: Any) -> TracedArgument:
    shape: list[int | str] = list(map(int, value.shape))
    if batch > 1 and shape and shape[0] == batch:
        shape[0] = BATCH
    varies = BATCH in shape
    draw = learn.input_draw(opened.tape, value, varies=varies) if part == "input" else None
    drawn = draw or learn.parameter_draw(opened.tape, value)
    dtype = str(value.dtype).removeprefix("torch.")
    return TracedArgument.model_validate({"name": name, "dims": shape, "dtype": dtype, "draw": drawn, "part": part})


def _reference(
    model: torch.nn.Module,
    leaves: list[Any],
    structure: Any,
    count: int,
    names: list[str],
    tables: Mapping[str, torch.Tensor],
) -> Callable[..., Any]:
    def reference(*given: Any) -> Any:
        waiting = iter(given[:count])
        complete = [next(waiting) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        like = given[0]
        state = {name: table.to(like.device) for name, table in tables.items()}
        state |= dict(zip(names, given[count:], strict=True))
        found = torch.func.functional_call(model, state, tuple(tree_unflatten(complete, structure)))
        return tuple(found) if isinstance(found, list) else found

    return reference


def _results(reference: Callable[..., Any], arguments: list[torch.Tensor], opened: Opened) -> int:
    """How many tensors it returns; without data where it looks at none, else on small ones."""
    try:
        with opened.fake:
            found = reference(*arguments)
    except Exception:  # it looks at its data, which is why it could not be traced
        return 1
    return len(found) if isinstance(found, tuple) else 1
