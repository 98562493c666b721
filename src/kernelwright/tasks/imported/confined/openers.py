"""What the files of each form mean: from a bundle to its settings, each of which makes one case.

All of it runs beside the stranger's code, and what is wrong in a stranger's data costs one line.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelwright.tasks.imported.confined.case import (
    ANYWHERE,
    BundleFiles,
    Leaf,
    ReferenceCase,
    Setting,
    leaves_of,
    parameter_names,
)
from kernelwright.tasks.imported.confined.definition import read_definition
from kernelwright.tasks.imported.confined.quotients import with_whole_quotients
from kernelwright.tasks.imported.confined.settings_file import listed_settings
from kernelwright.tasks.imported.confined.tape import Untraceable, tensors_in
from kernelwright.tasks.imported.form import INITIAL, INPUTS, MODEL, SizeHints, parsed
from kernelwright.tasks.imported.forms import DEFINITION, GPU_MODE, KERNELBENCH, ROBUST

MOST_SETTINGS = 64
FUNCTION, MODULE_FUNCTION = "forward_fn", "fn"
GENERATE, REFERENCE = "generate_input", "ref_kernel"
PARTS = {"parameter": "parameters", "buffer": "buffers"}
CONFIGS = ("init", "input", "shared")


def executed(path: Path, source: bytes) -> ModuleType:
    """A problem may import the files that came with it."""
    module = ModuleType("problem")
    module.__file__ = str(path)
    sys.modules["problem"] = module
    sys.path[:0] = [str(path.parent)]
    exec(compile(with_whole_quotients(source, str(path)), str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def _function(module: ModuleType, name: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        raise Untraceable(f"it has no function {name}")
    return found  # type: ignore[no-any-return]


# --- KernelBench -----------------------------------------------------------------------------------------------------


def kernelbench(files: BundleFiles) -> list[Setting]:
    source = files.main.read_bytes()
    module = executed(files.main, source)
    return [Setting(lambda: problem_case(module, source))]


def problem_case(module: ModuleType, source: bytes = b"") -> ReferenceCase:
    initial = getattr(module, INITIAL)()
    model = getattr(module, MODEL)(*initial)
    given = getattr(module, INPUTS)()
    if not isinstance(model, torch.nn.Module):
        raise Untraceable(f"{MODEL} is not a torch.nn.Module")
    _require_tensors(given, INPUTS)
    leaves = leaves_of(given, parameter_names(model.forward))
    hints = SizeHints(source, vars(module))
    return ReferenceCase(model, tuple(given), leaves, hints, same_function=False, initial=initial)


def _require_tensors(given: Any, name: str) -> None:
    if isinstance(given, torch.Tensor) or not isinstance(given, list | tuple):
        raise Untraceable(f"{name}() returns a {type(given).__name__}: it must return a list")
    if not tensors_in(given):
        raise Untraceable(f"{name}() returns no tensor")


# --- robust-kbench ---------------------------------------------------------------------------------------------------


def robust_kbench(files: BundleFiles) -> list[Setting]:
    source = files.main.read_bytes()
    chosen = _configurations(_json(files.read("config.json"), "its config"))
    module = executed(files.main, source)
    return [Setting(lambda one=one: _robust_case(module, source, *one)) for one in chosen]  # type: ignore[misc]


Options = Mapping[str, Any]


def _configurations(config: Any) -> list[tuple[Options, Options]]:
    """Options of the module and of its inputs, in the order in which that benchmark goes through them."""
    found: list[tuple[Options, Options]] = []
    if not isinstance(config, dict):
        raise Untraceable("its config is not an object")
    for kind in ("single", "multi"):
        init, given, shared = (_options(config.get(f"{kind}_{name}_configs", [{}])) for name in CONFIGS)
        for one in init:
            for other in given:
                found += [({**one, **common}, {**other, **common}) for common in shared]
    unique = [one for place, one in enumerate(found) if one not in found[:place]]
    return unique[:MOST_SETTINGS]


def _options(given: Any) -> list[Options]:
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise Untraceable("a list of options in its config is not a list of objects")
    return given[:MOST_SETTINGS]


def _robust_case(module: ModuleType, source: bytes, init: Options, given: Options) -> ReferenceCase:
    """Its function with all that the module hands to it; the module itself where it does more than that."""
    model = _function(module, MODEL)(**init)
    inputs = _function(module, INPUTS)(**given)
    if not isinstance(model, torch.nn.Module):
        raise Untraceable(f"{MODEL} is not a torch.nn.Module")
    _require_tensors(inputs, INPUTS)
    hints = SizeHints(source, {**vars(module), **_defaults(module), **init, **given})
    names = [name for name in parameter_names(model.forward) if name != MODULE_FUNCTION]
    called = _called(model, inputs, getattr(module, FUNCTION, None))
    if called is None:
        return ReferenceCase(model, tuple(inputs), leaves_of(inputs, names), hints, same_function=False)
    own = {id(one): part for part, held in PARTS.items() for one in getattr(model, held)()}
    places = {id(leaf.value): leaf.place for leaf in leaves_of(inputs, names)}
    leaves = [
        Leaf(
            leaf.name,
            leaf.value,
            part=own.get(id(leaf.value), "input"),
            place=places.get(id(leaf.value), ANYWHERE),
            told=isinstance(leaf.value, bool | int | float),
        )
        for leaf in leaves_of(tuple(called.values()), list(called))
    ]
    return ReferenceCase(_function(module, FUNCTION), tuple(called.values()), tuple(leaves), hints)


def _defaults(module: ModuleType) -> dict[str, Any]:
    given = inspect.signature(_function(module, INPUTS)).parameters.values()
    return {one.name: one.default for one in given if one.default is not one.empty}


class _CalledError(Exception):
    """Leaves a module as soon as it calls its function."""


def _called(model: torch.nn.Module, inputs: Any, function: Any) -> dict[str, Any] | None:
    """The arguments by name, where the module returns what its function does and takes it as an option."""
    if not callable(function) or MODULE_FUNCTION not in inspect.signature(model.forward).parameters:
        return None
    bound: dict[str, Any] = {}

    def note(*given: Any, **options: Any) -> Any:
        found = inspect.signature(function).bind(*given, **options)
        found.apply_defaults()
        bound.update(found.arguments)
        raise _CalledError

    answers: list[Any] = []

    def answer(*given: Any, **options: Any) -> Any:
        answers.append(object())
        return answers[-1]

    try:
        model(*inputs, **{MODULE_FUNCTION: note})
    except _CalledError:
        pass
    except Exception:  # whatever it does there, the module as a whole is tried
        return None
    try:
        whole = model(*inputs, **{MODULE_FUNCTION: answer})
    except Exception:  # it computes with the answer
        return None
    several = any(one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) for one in _parameters(function))
    return None if several or not bound or len(answers) != 1 or whole is not answers[0] else bound


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


# --- definitions with workloads --------------------------------------------------------------------------------------


def definition(files: BundleFiles) -> list[Setting]:
    read = read_definition(_json(files.main.read_bytes(), "the definition"), _lines(files.read("workload.jsonl")))
    path = files.folder / "reference.py"
    module = executed(path, read.reference.encode())
    run = _function(module, "run")
    return read.settings(run, module, MOST_SETTINGS)


def _lines(content: bytes | None) -> list[Any]:
    if content is None:
        return []
    return [_json(line, "a workload") for line in content.splitlines() if line.strip()][: 16 * MOST_SETTINGS]


def _json(content: bytes | None, what: str) -> Any:
    try:
        return json.loads(content or b"")
    except (ValueError, RecursionError):
        raise Untraceable(f"{what} is not JSON") from None


# --- GPU MODE --------------------------------------------------------------------------------------------------------


def gpu_mode(files: BundleFiles) -> list[Setting]:
    chosen = listed_settings(files.main.read_bytes(), ("benchmarks", "tests"))
    source = files.read("reference.py") or b""
    module = executed(files.folder / "reference.py", source)
    return [Setting(lambda one=one: _gpu_mode_case(module, source, one)) for one in chosen[:MOST_SETTINGS]]  # type: ignore[misc]


def _gpu_mode_case(module: ModuleType, source: bytes, options: Options) -> ReferenceCase:
    data = _function(module, GENERATE)(**options)
    if not tensors_in(data):
        raise Untraceable(f"{GENERATE}() returns no tensor")
    function = _function(module, REFERENCE)
    top = parameter_names(function)[0]
    leaves = list(leaves_of((data,), ["" if isinstance(data, tuple | list | dict) else top]))
    names = _unpacked(source, top) if isinstance(data, tuple | list) else []
    if len(names) == len(data):
        leaves = [Leaf(_renamed(leaf.name, names), leaf.value, place=leaf.place) for leaf in leaves]
    return ReferenceCase(function, (data,), tuple(leaves), SizeHints(b"", options))


def _renamed(name: str, names: list[str]) -> str:
    """`1_weight` with what the reference calls the second part."""
    first, _, rest = name.partition("_")
    return f"{names[int(first)]}_{rest}".strip("_") if first.isdigit() else name


def _unpacked(source: bytes, top: str) -> list[str]:
    """The names of `a, b = data` in the reference."""
    tree = parsed(source)
    for node in ast.walk(tree) if tree is not None else ():
        if not (isinstance(node, ast.FunctionDef) and node.name == REFERENCE):
            continue
        for inner in ast.walk(node):
            if not (isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Name) and inner.value.id == top):
                continue
            parts = inner.targets[0].elts if isinstance(inner.targets[0], ast.Tuple) else []
            if parts and all(isinstance(one, ast.Name) for one in parts):
                return [one.id for one in parts if isinstance(one, ast.Name)]
    return []


OPENERS: dict[str, Callable[[BundleFiles], list[Setting]]] = {
    KERNELBENCH: kernelbench,
    ROBUST: robust_kbench,
    DEFINITION: definition,
    GPU_MODE: gpu_mode,
}
