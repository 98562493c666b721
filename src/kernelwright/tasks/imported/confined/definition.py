"""Definitions of SOL-ExecBench and flashinfer-trace: axes, tensors, a reference `run`, and workloads.

https://bench.flashinfer.ai describes the schema. What a definition does not say is not invented: values from files are
drawn instead of read where they are data, and refused where they are indices.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch

from kernelwright.tasks.dims import TaskError, evaluate, names_in
from kernelwright.tasks.dtypes import FLOATS
from kernelwright.tasks.imported.confined.case import Leaf, ReferenceCase, Setting
from kernelwright.tasks.imported.confined.tape import Untraceable
from kernelwright.tasks.imported.form import SizeHints

# As SOL-ExecBench draws what a workload calls "random".
INTEGERS = {"int8": (-128, 128), "int16": (-1024, 1024), "int32": (-1024, 1024), "int64": (-1024, 1024)}
NUMBER, EXAMPLE = 0.5, 64  # a scalar that is drawn, and an axis of a definition without workloads
ALLOWED = {"max_atol": 1e-2, "max_rtol": 1e-2, "required_matched_ratio": 0.99, "max_error_cap": None}
LARGEST = 1 << 40


@dataclass(frozen=True)
class TensorSpecification:
    shape: tuple[str, ...] | None
    dtype: str


@dataclass(frozen=True)
class ListedWorkload:
    axes: Mapping[str, int]
    inputs: Mapping[str, Any]
    tolerance: Mapping[str, Any] | None


@dataclass(frozen=True)
class Definition:
    reference: str
    constant: Mapping[str, int]
    variable: tuple[str, ...]
    computed: Mapping[str, str]
    inputs: Mapping[str, TensorSpecification]
    outputs: tuple[str, ...]
    generator: str | None
    workloads: tuple[ListedWorkload, ...]

    def settings(self, run: Callable[..., Any], module: ModuleType, most: int) -> list[Setting]:
        """One for each workload; of a definition without any, one at sizes of our own."""

        def setting(one: ListedWorkload) -> Setting:
            wider = replace(one, axes={name: max(2, size) for name, size in one.axes.items()})
            stretched = (lambda: self._case(run, module, wider)) if wider.axes != one.axes else None
            return Setting(lambda: self._case(run, module, one), stretched)

        given = self.workloads or (ListedWorkload(dict.fromkeys(self.variable, EXAMPLE), {}, None),)
        return [setting(one) for one in given[:most]]

    def sizes(self, workload: ListedWorkload) -> dict[str, int]:
        missing = [name for name in self.variable if name not in workload.axes]
        if missing:
            raise Untraceable(f"a workload does not give the axis {missing[0]}")
        known = {**self.constant, **{name: workload.axes[name] for name in self.variable}}
        for name, expression in self.computed.items():
            known[name] = _evaluated(expression, known)
        return known

    def axis(self, name: str) -> int | str:
        """A number where it is fixed, else what it is in terms of the axes that vary."""
        if name.isdigit():
            return int(name)
        if name in self.constant:
            return self.constant[name]
        if name not in self.computed:
            return name
        fixed = _substituted(self.computed[name], self.constant)
        return fixed if names_in(fixed) else _evaluated(fixed, {})

    def _case(self, run: Callable[..., Any], module: ModuleType, workload: ListedWorkload) -> ReferenceCase:
        sizes = self.sizes(workload)
        notes: list[str] = []
        if self.generator is not None:
            given = self._generated(module, sizes, workload)
        else:
            given = {name: self._drawn(name, sizes, workload, notes) for name in self.inputs}
        leaves = []
        for name, value in given.items():
            shape = self.inputs[name].shape
            axes = tuple(map(self.axis, shape)) if shape and isinstance(value, torch.Tensor) else None
            leaves.append(Leaf(name, value, axes=axes, told=isinstance(value, bool | int | float)))
        hints = SizeHints(b"", {name: sizes[name] for name in self.variable})
        return ReferenceCase(
            run,
            tuple(given.values()),
            tuple(leaves),
            hints,
            outputs=self.outputs,
            notes=tuple(notes),
            tolerance=workload.tolerance,
        )

    def _generated(self, module: ModuleType, sizes: Mapping[str, int], workload: ListedWorkload) -> dict[str, Any]:
        function = getattr(module, str(self.generator), None)
        if not callable(function):
            raise Untraceable(f"its reference has no function {self.generator}")
        numbers = {name: _number(one) for name, one in workload.inputs.items() if _type(one) == "scalar"}
        made = function({**sizes, **numbers}, torch.device("cpu"))
        if not isinstance(made, dict) or not set(self.inputs) <= set(made):
            raise Untraceable(f"{self.generator}() does not give every input of the definition")
        for name, specification in self.inputs.items():
            wanted = self._shape(specification, sizes)
            if isinstance(made[name], torch.Tensor) and wanted is not None and tuple(made[name].shape) != wanted:
                raise Untraceable(f"{self.generator}() gives {name} another shape than the definition does")
        return {name: made[name] for name in self.inputs}

    def _shape(self, specification: TensorSpecification, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        if specification.shape is None:
            return None
        return tuple(int(name) if name.isdigit() else sizes[name] for name in specification.shape)

    def _drawn(self, name: str, sizes: Mapping[str, int], workload: ListedWorkload, notes: list[str]) -> Any:
        specification, given = self.inputs[name], workload.inputs.get(name, {"type": "random"})
        shape, kind, dtype = self._shape(specification, sizes), _type(given), specification.dtype
        if shape is None:
            return _number(given) if kind == "scalar" else NUMBER if dtype in FLOATS else 1
        if kind == "safetensors":
            if dtype not in FLOATS:
                raise Untraceable(f"its workload takes the values of {name} from a file, which is not read")
            notes.append("values_of_a_file")
        return _tensor(name, shape, dtype)


def _tensor(name: str, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    if math.prod(shape) > LARGEST:
        raise Untraceable(f"{name} has more than 2^40 elements")
    if dtype in FLOATS:
        return torch.randn(shape, dtype=getattr(torch, dtype))
    if dtype == "bool":
        return torch.randint(0, 2, shape).bool()
    if dtype in INTEGERS:
        return torch.randint(*INTEGERS[dtype], shape, dtype=getattr(torch, dtype))
    raise Untraceable(f"{name} is {dtype[:40]}, which a task cannot have")


def _type(given: Any) -> str:
    return str(given.get("type")) if isinstance(given, dict) else ""


def _number(given: Any) -> float | int | bool:
    value = given.get("value") if isinstance(given, dict) else None
    if not isinstance(value, bool | int | float) or not math.isfinite(value):
        raise Untraceable("a scalar of its workload is not a number")
    return value


def _evaluated(expression: str, known: Mapping[str, int]) -> int:
    try:
        found = evaluate(expression.replace("+ -", "- "), known)
    except TaskError as error:
        raise Untraceable(f"an axis cannot be computed: {error}") from None
    if not 0 <= found <= LARGEST:
        raise Untraceable(f"an axis is {found}")
    return found


def _substituted(expression: str, constant: Mapping[str, int]) -> str:
    class Substitution(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.Constant(constant[node.id]) if node.id in constant else node

    try:
        return ast.unparse(Substitution().visit(ast.parse(expression[:200], mode="eval")))
    except (SyntaxError, ValueError, RecursionError):
        raise Untraceable("an axis is not an expression") from None


# --- reading ---------------------------------------------------------------------------------------------------------


def read_definition(said: Any, lines: list[Any]) -> Definition:
    axes, inputs, outputs = (_object(said, name) for name in ("axes", "inputs", "outputs"))
    reference, generator = said.get("reference"), said.get("custom_inputs_entrypoint")
    if not isinstance(reference, str):
        raise Untraceable("the definition has no reference")
    kinds = {name: axis.get("type") if isinstance(axis, dict) else None for name, axis in axes.items()}
    unknown = [name for name, kind in kinds.items() if kind not in ("const", "var", "expr")]
    if unknown:
        raise Untraceable(f"the axis {unknown[0][:40]!r} is neither const nor var nor expr")
    found = Definition(
        reference=reference,
        constant={name: _size(axes[name].get("value")) for name, kind in kinds.items() if kind == "const"},
        variable=tuple(name for name, kind in kinds.items() if kind == "var"),
        computed={name: str(axes[name].get("expression")) for name, kind in kinds.items() if kind == "expr"},
        inputs={name: _specification(name, one) for name, one in inputs.items()},
        outputs=tuple(outputs),
        generator=generator if isinstance(generator, str) else None,
        workloads=tuple(_workload(line) for line in lines),
    )
    for name, one in found.inputs.items():
        strange = [axis for axis in one.shape or () if not axis.isdigit() and axis not in axes]
        if strange:
            raise Untraceable(f"{name} has the axis {strange[0][:40]!r}, which is not defined")
    return found


def _object(said: Any, name: str) -> dict[str, Any]:
    found = said.get(name) if isinstance(said, dict) else None
    if not isinstance(found, dict) or len(found) > 256 or not all(key.isidentifier() for key in found):
        raise Untraceable(f"{name} of the definition is not an object with names")
    return found


def _specification(name: str, one: Any) -> TensorSpecification:
    shape, dtype = (one.get("shape"), one.get("dtype")) if isinstance(one, dict) else (None, None)
    if not isinstance(dtype, str) or not (shape is None or isinstance(shape, list)):
        raise Untraceable(f"{name} has no shape and dtype")
    return TensorSpecification(None if shape is None else tuple(map(str, shape)), dtype)


def _size(value: Any) -> int:
    if type(value) is not int or not 0 < value <= LARGEST:
        raise Untraceable("an axis is not a whole number")
    return value


def _workload(line: Any) -> ListedWorkload:
    """By itself, or inside of a trace."""
    inner: Any = line.get("workload") if isinstance(line, dict) and "workload" in line else line
    axes = inner.get("axes") if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(axes, dict):
        raise Untraceable("a workload has no axes")
    inputs = inner.get("inputs")
    given = inner.get("tolerance")
    tolerance = None
    if isinstance(given, dict):
        tolerance = {name: given.get(name, default) for name, default in ALLOWED.items()}
    sizes = {name: _size(value) for name, value in axes.items()}
    return ListedWorkload(sizes, inputs if isinstance(inputs, dict) else {}, tolerance)
