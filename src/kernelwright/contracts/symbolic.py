"""The signature of a task with sizes that are not known yet: every dimension as an expression over named sizes.

Dimensions of inputs are declared so. Those of results are what the reference makes of them: the expression that gives
the right size at several workloads is taken, and where none does the task is refused.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from kernelwright.contracts.portable import NamedSize, Nodes, Ref, ScalarArgument, TensorArgument
from kernelwright.contracts.portable.expressions import Node
from kernelwright.tasks.declarations import TensorInput
from kernelwright.tasks.dims import Dim, TaskError
from kernelwright.tasks.model import ModuleForm, ScalarSpec, Signature, Task, TensorSpec, Workload

Expression = int | str | tuple["str | Expression", ...]
"""A number, a size, or an operation of contracts/portable/expressions.py before its operands."""

SAMPLES = 6
NEAR = 48  # sizes of the samples are that close to the least, since a reference that needs data gets some
_OPERATIONS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv"}


@dataclass(frozen=True)
class SymbolicTensor:
    name: str
    dtype: str
    shape: tuple[Expression, ...]
    role: str


@dataclass(frozen=True)
class SymbolicSignature:
    """Arguments in the order in which a kernel receives them, and the ranges of the sizes in their shapes."""

    sizes: tuple[NamedSize, ...]
    arguments: tuple[SymbolicTensor | ScalarSpec, ...]
    module: ModuleForm | None = None  # of a task that was a module; it has no sizes that vary

    def at(self, sizes: Mapping[str, int]) -> Signature:
        """What a kernel receives at some sizes."""
        from kernelwright.tasks.drawing import row_major

        found: list[TensorSpec | ScalarSpec] = []
        for argument in self.arguments:
            if isinstance(argument, SymbolicTensor):
                shape = tuple(value_of(size, sizes) for size in argument.shape)
                found.append(TensorSpec(argument.name, argument.dtype, shape, row_major(shape), argument.role))
            else:
                found.append(argument)
        return Signature(tuple(found), self.module)

    def portable(self) -> tuple[Nodes, tuple[TensorArgument | ScalarArgument, ...]]:
        """The arguments of a portable kernel, and the table that their shapes refer to."""
        table: dict[Node, int] = {}
        found: list[TensorArgument | ScalarArgument] = []
        for argument in self.arguments:
            if isinstance(argument, ScalarSpec):
                found.append(ScalarArgument(argument.name, argument.value))
                continue
            shape = tuple(size if isinstance(size, int) else Ref(_placed(size, table)) for size in argument.shape)
            found.append(TensorArgument(argument.name, argument.role, argument.dtype, shape))
        return Nodes(tuple(table)), tuple(found)


def _placed(expression: Expression, table: dict[Node, int]) -> int:
    node: Node
    if isinstance(expression, tuple):
        operation, *operands = expression
        node = (str(operation), tuple(_placed(operand, table) for operand in operands))
    else:
        node = expression
    return table.setdefault(node, len(table))


def size_ranges(task: Task) -> tuple[NamedSize, ...]:
    """The declared ranges, widened to the public workloads."""
    names = dict.fromkeys(name for sizes in (*task.public, task.hidden) for name in sizes)
    found = []
    for name in names:
        ends = [*task.hidden.get(name, ()), *(sizes[name] for sizes in task.public if name in sizes)]
        found.append(NamedSize(name, min(ends), max(ends)))
    return tuple(found)


def symbolic_signature(task: Task, dtype: str = "float32") -> SymbolicSignature:
    """Raises TaskError where a size of a result is not a plain expression over sizes."""
    from kernelwright.tasks.drawing import signature

    ranges = size_ranges(task)
    workloads = _samples(ranges, dtype)
    samples = [signature(task, workload) for workload in workloads]
    declared: dict[str, tuple[Expression, ...]] = {}
    for name, given in task.inputs.items():
        if isinstance(given, TensorInput):
            declared[name] = tuple(expression_of(dim) for dim in given.dims)
    known: list[Expression] = list(dict.fromkeys([*(size.name for size in ranges), *_flat(declared.values())]))
    arguments: list[SymbolicTensor | ScalarSpec] = []
    for number, argument in enumerate(samples[0].arguments):
        if isinstance(argument, ScalarSpec):
            arguments.append(argument)
            continue
        shape = declared.get(argument.name) or _fitted(number, argument, samples, workloads, known, task.name)
        arguments.append(SymbolicTensor(argument.name, argument.dtype, shape, argument.role))
    return SymbolicSignature(ranges, tuple(arguments), task.module)


def _flat(shapes: object) -> Iterator[Expression]:
    for shape in shapes:  # type: ignore[attr-defined]
        yield from shape


def _samples(ranges: Sequence[NamedSize], dtype: str) -> list[Workload]:
    chance = random.Random(0)
    found = []
    for _ in range(SAMPLES):
        sizes = {size.name: chance.randint(size.least, min(size.most, size.least + NEAR)) for size in ranges}
        found.append(Workload(tuple(sizes.items()), dtype))
    return found


def expression_of(dim: Dim) -> Expression:
    """A declared dimension such as "(height - 2) // 2 + 1"."""
    if isinstance(dim, int):
        return dim

    def made(node: ast.expr) -> Expression:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)], made(node.left), made(node.right)
        raise TaskError(f"dimension {dim!r} may use whole numbers, names, + - * // and parentheses only")

    return made(ast.parse(dim.strip(), mode="eval").body)


def value_of(expression: Expression, sizes: Mapping[str, int]) -> int:
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str) and expression in sizes:
        return sizes[expression]
    table: dict[Node, int] = {}
    at = _placed(expression, table)
    return int(Nodes(tuple(table)).at(sizes)[at])


def _fitted(
    number: int,
    argument: TensorSpec,
    samples: Sequence[Signature],
    workloads: Sequence[Workload],
    known: Sequence[Expression],
    task: str,
) -> tuple[Expression, ...]:
    shape: list[Expression] = []
    for dim in range(len(argument.shape)):
        wanted = []
        for sample in samples:
            tensor = sample.arguments[number]
            assert isinstance(tensor, TensorSpec)
            wanted.append(tensor.shape[dim])
        fits = _fits(wanted, [workload.size_map for workload in workloads])
        found = next((one for one in _likely(wanted[0], known) if fits(one)), None)
        if found is None:
            raise TaskError(f"{task}: size {dim} of {argument.name} is not a plain expression over the task's sizes")
        shape.append(found)
    return tuple(shape)


def _fits(wanted: Sequence[int], sizes: Sequence[dict[str, int]]) -> Callable[[Expression], bool]:
    return lambda one: all(value_of(one, at) == value for value, at in zip(wanted, sizes, strict=True))


def _likely(value: int, known: Sequence[Expression]) -> Iterator[Expression]:
    yield value
    yield from known
    for count in (2, 3):
        for factors in combinations_with_replacement(known, count):
            product: Expression = factors[0]
            for factor in factors[1:]:
                product = ("mul", product, factor)
            yield product
    for stride in (1, 2, 3, 4):  # what a window leaves of a size
        for more in range(-16, 17):
            for size in known:
                yield ("floordiv", ("add", size, more), stride)
