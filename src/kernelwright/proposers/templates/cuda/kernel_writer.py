"""What every writer of a kernel keeps: lines of the plan, parameters, and pointwise operations as CUDA."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelwright.proposers.templates.cuda.kernels import Parameter
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.graph import Extent, Formula, Graph, Number
from kernelwright.proposers.templates.sizes import Sizes

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "logical_and": "&&", "logical_or": "||"}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SPELLED = {
    "neg": "-{0}",
    "exp": "expf({0})",
    "log": "logf({0})",
    "sqrt": "sqrtf({0})",
    "rsqrt": "rsqrtf({0})",
    "reciprocal": "1.0f / {0}",
    "abs": "fabsf({0})",
    "relu": "most({0}, 0.0f)",
    "tanh": "tanhf({0})",
    "erf": "erff({0})",
    "sigmoid": "1.0f / (1.0f + expf(-{0}))",
    "maximum": "most({0}, {1})",
    "minimum": "least({0}, {1})",
    "pow": "powf({0}, {1})",
    "sign": "sign({0})",
    "log1p": "log1pf({0})",
    "expm1": "expm1f({0})",
    "sin": "sinf({0})",
    "cos": "cosf({0})",
    "floor": "floorf({0})",
    "logical_not": "!{0}",
    "where": "{0} ? {1} : {2}",
    "repeat": "{0}",
}
COSTLY = frozenset(("exp", "log", "tanh", "erf", "pow", "sigmoid", "log1p", "expm1", "sin", "cos"))
TYPES = {"float32": "float", "int64": "long long", "bool": "bool"}


def expression(operation: str, operands: list[str], target: str) -> str:
    if operation in _INFIX:
        return f"{operands[0]} {_INFIX[operation]} {operands[1]}"
    if operation in _COMPARED:
        return f"{operands[0]} {_COMPARED[operation]} {operands[1]}"
    if operation in _SPELLED:
        return _SPELLED[operation].format(*operands)
    assert operation == "convert", operation
    return f"{operands[0]} != 0" if target == "bool" else f"static_cast<{TYPES[target]}>({operands[0]})"


def python_size(extent: Extent, sizes: Sizes) -> str:
    """Sizes are whole, also where a window divides one."""
    return sizes.expression(extent).replace("/", "//")


def python_number(value: Number, sizes: Sizes) -> str:
    """A number of the graph as Python computes it in the plan, from sizes and scalar arguments."""
    match value:
        case Extent():
            return f"({python_size(value, sizes)})"
        case Formula():
            operands = [python_number(operand, sizes) for operand in value.operands]
            if value.operator == "neg":
                return f"(-{operands[0]})"
            if value.operator == "sqrt":
                return f"({operands[0]} ** 0.5)"
            operator = "**" if value.operator == "pow" else value.operator
            return f"({operands[0]} {operator} {operands[1]})"
        case str():
            return value
        case bool():
            return str(value)
    return f"float({str(value)!r})" if value != value or abs(value) == float("inf") else repr(value)


@dataclass(kw_only=True)
class KernelWriter:
    genes: Genes
    sizes: Sizes
    graph: Graph
    step: int
    setup: list[str] = field(default_factory=list)
    parameters: dict[str, Parameter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.types = {tensor.name: tensor.dtype for tensor in self.graph.tensors}

    def pointer(self, name: str, *, written: bool = False, read: bool = True, kind: str = "") -> str:
        """The name in CUDA of a tensor or of the plan's own memory, which becomes a parameter."""
        known = self.parameters.get(name)
        kind = kind or TYPES[self.types.get(name, "float32")]
        both = Parameter(name, kind, written or bool(known and known.written), read or bool(known and known.read))
        self.parameters[name] = both
        return both.pointer

    def define(self, name: str, python: str) -> None:
        self.setup.append(f'definitions_["{name}"] = {python}')

    def size(self, extent: Extent) -> str:
        return python_size(extent, self.sizes)

    def set(self, name: str, python: str) -> None:
        """A number of the plan that the kernel has as a constant NAME_step."""
        self.setup.append(f"{name}_{self.step} = {python}")
        self.define(f"{name.upper()}_{self.step}", f"{name}_{self.step}")

    @property
    def plan_lines(self) -> str:
        return "\n".join(dict.fromkeys(self.setup))
