"""A kernel of a rendered candidate, what writes one, and how kernels that do not need each other share a launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.contracts.cuda import TYPES as CUDA_TYPES
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.graph import Extent, Formula, Graph, Number
from kernelwright.proposers.templates.sizes import Sizes


@dataclass(frozen=True)
class Parameter:
    name: str  # of a tensor or of memory that the plan made
    type: str  # of an element
    written: bool = False
    read: bool = True
    value: str = ""  # Python for a number that is passed by value, under the name of the definition it stands for

    @property
    def text(self) -> str:
        if self.value:
            return f"const {self.type} {self.name}"
        return f"{'' if self.written else 'const '}{self.type}* __restrict__ {self.pointer}"

    @property
    def pointer(self) -> str:
        """Its name in CUDA, where no other variable begins like this."""
        return self.name if self.value else f"p_{self.name}"

    @property
    def argument(self) -> str:
        """In the plan."""
        return self.value or self.name


@dataclass(frozen=True)
class Kernel:
    """A device function `name(block, blocks, parameters...)`, and Python for how many blocks and threads it has.

    `setup` are lines of the plan: sizes, definitions and memory. The body may return early in whole threads only.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: str
    setup: str
    blocks: str
    threads: str
    cooperative: str = "False"
    before: str = ""  # what stands before the function
    least_blocks: str = "1"  # on a multiprocessor
    shared: str = "0"  # bytes of dynamic shared memory, in Python
    heavy: bool = False  # with registers and shared memory that others in its launch would have to pay for
    needs: tuple[str, ...] = ()  # CUDA that kernels have in common, beside the prelude
    helpers: tuple[str, ...] = ()  # functions of the plan, likewise
    when: str = "True"  # whether the sizes at hand need it at all
    dynamic: bool = False  # whether the number of blocks is an argument, as all sizes are

    def function(self) -> str:
        declared = "".join(f", {parameter.text}" for parameter in self.parameters)
        head = f"__device__ __forceinline__ void {self.name}(const int block, const int blocks{declared})"
        return f"{self.before}{head} {{\n{self.body}}}\n"

    @property
    def reads(self) -> set[str]:
        return {parameter.name for parameter in self.parameters if parameter.read and not parameter.value}

    @property
    def writes(self) -> set[str]:
        return {parameter.name for parameter in self.parameters if parameter.written}


@dataclass(frozen=True)
class KernelLaunch:
    number: int
    kernels: tuple[Kernel, ...]

    @property
    def alone(self) -> bool:
        """Blocks that wait for each other: all of them are resident, and nothing of another launch beside them."""
        return self.cooperative != "False"

    @property
    def open(self) -> bool:
        """To other kernels."""
        return not self.alone and not self.kernels[0].heavy

    def needs(self, kernel: Kernel, homes: Mapping[str, str]) -> bool:
        """Whether the kernel must wait for this launch, or must not run beside it; `homes` says whose memory is one."""

        def lie(names: set[str]) -> set[str]:
            return {homes.get(name, name) for name in names}

        reads, writes = lie(kernel.reads), lie(kernel.writes)
        return any(lie(one.writes) & (reads | writes) or lie(one.reads) & writes for one in self.kernels)

    def text(self, *, waits: bool, lets: bool) -> str:
        """Blocks are numbered through the kernels in order; threads that a kernel has no use for leave."""
        parameters = self.parameters
        lines = ["let_next_launch_start();"] if lets else []
        lines += ["wait_for_launch_before();"] if waits else []
        first = "0"
        for number, kernel in enumerate(self.kernels):
            arguments = "".join(f", {parameter.pointer}" for parameter in kernel.parameters)
            count = f"BLOCKS_{kernel.name}"
            lines.append(f"if (blockIdx.x < {first} + {count}) {{")
            lines.append(f"  if (threadIdx.x < THREADS_{kernel.name})")
            lines.append(f"    {kernel.name}(blockIdx.x - ({first}), {count}{arguments});")
            lines.append("  return;" if number + 1 < len(self.kernels) else "")
            lines.append("}")
            first = f"{first} + {count}"
        declared = ",\n    ".join(parameter.text for parameter in parameters)
        body = "".join(f"  {line}\n" for line in lines if line)
        bounds = f"__launch_bounds__(THREADS_{self.number}, LEAST_{self.number})"
        return f'extern "C" __global__ void {bounds} launch{self.number}(\n    {declared}) {{\n{body}}}\n'

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        counted = [kernel.name for kernel in self.kernels if kernel.dynamic]
        blocks = (Parameter(f"BLOCKS_{name}", "int", value=f"kw.i32(blocks_{name})") for name in counted)
        return (*merged(self.kernels), *blocks)

    @property
    def cooperative(self) -> str:
        """In Python; a kernel whose blocks may wait for each other is the only one of its launch."""
        return self.kernels[0].cooperative

    def plan(self, overlapped: KernelLaunch | None) -> str:
        """Lines of plan.py. `overlapped` is the launch before, where this one may begin while that one runs."""
        names = [kernel.name for kernel in self.kernels]
        lines = []
        for kernel in self.kernels:
            lines += kernel.setup.splitlines()
            blocks = kernel.blocks if kernel.when == "True" else f"{kernel.blocks} if {kernel.when} else 0"
            lines.append(f"blocks_{kernel.name}, threads_{kernel.name} = ({blocks}), {kernel.threads}")
            if not kernel.dynamic:
                lines.append(f'definitions_["BLOCKS_{kernel.name}"] = blocks_{kernel.name}')
            lines.append(f'definitions_["THREADS_{kernel.name}"] = threads_{kernel.name}')
        lines.append(f"blocks_ = {' + '.join(f'blocks_{name}' for name in names)}")
        lines.append(f"threads_ = max([{', '.join(f'threads_{name}' for name in names)}])")
        lines.append(f'definitions_["THREADS_{self.number}"] = threads_')
        lines.append(f'definitions_["LEAST_{self.number}"] = min({_least(self.kernels)}, 2048 // threads_)')
        pointers = ", ".join(parameter.argument for parameter in self.parameters)
        options = f", cooperative={self.cooperative}" if self.alone else ""
        shared = [kernel.shared for kernel in self.kernels if kernel.shared != "0"]
        options += f", shared=max({', '.join(['0', *shared])})" if shared else ""
        if overlapped:
            # The launch before may have been left out, so what it was shows only here.
            alone = f"steps_[-1].cooperative or {self.cooperative}"
            options += f", dependent=bool(steps_) and not ({alone})"
        lines.append("if blocks_:")
        lines.append(f'    steps_.append(kw.launch("launch{self.number}", blocks_, threads_, {pointers}{options}))')
        return "".join(f"{line}\n" for line in lines)


def _least(kernels: Sequence[Kernel]) -> str:
    """What suits all: a kernel may need more registers than another leaves it."""
    wanted = dict.fromkeys(kernel.least_blocks for kernel in kernels)
    return next(iter(wanted)) if len(wanted) == 1 else f"min([{', '.join(wanted)}])"


def merged(kernels: Sequence[Kernel]) -> tuple[Parameter, ...]:
    found: dict[str, Parameter] = {}
    for parameter in (parameter for kernel in kernels for parameter in kernel.parameters):
        known = found.get(parameter.name)
        if known is None or (parameter.written and not known.written):
            found[parameter.name] = parameter
    return tuple(found.values())


def scheduled(kernels: Sequence[Kernel], *, share: bool, homes: Mapping[str, str]) -> list[KernelLaunch]:
    """Each kernel in the first launch after all that it needs, where neither it nor that launch keeps to itself."""
    launches: list[KernelLaunch] = []
    for kernel in kernels:
        apart = kernel.cooperative != "False" or kernel.heavy
        needed = max((number for number, launch in enumerate(launches) if launch.needs(kernel, homes)), default=-1)
        free = [n for n in range(needed + 1, len(launches)) if share and not apart and launches[n].open]
        if free:
            launches[free[0]] = KernelLaunch(free[0], (*launches[free[0]].kernels, kernel))
        else:
            launches.append(KernelLaunch(len(launches), (kernel,)))
    return launches


@dataclass(frozen=True)
class KernelBody:
    """One method for a product, as a renderer writes it: lines of the kernel, and Python for its launch.

    The lines use `last`, the epilogue of each element (epilogue.py).
    """

    lines: list[str]
    blocks: str
    threads: str
    shared: str = "0"
    least_blocks: str = "1"
    heavy: bool = False
    needs: tuple[str, ...] = ()  # CUDA beside the prelude
    helpers: tuple[str, ...] = ()  # functions of the plan


FIXED, DYNAMIC = "fixed", "dynamic"  # how sizes reach a kernel: as definitions, or as arguments
PASSED = {"int": "i32", "long long": "i64", "unsigned long long": "u64", "float": "f32"}
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
    "round": "rintf({0})",
    "trunc": "truncf({0})",
    "logical_not": "!{0}",
    "where": "{0} ? {1} : {2}",
    "repeat": "{0}",
}
COSTLY = frozenset(("exp", "log", "tanh", "erf", "pow", "sigmoid", "log1p", "expm1", "sin", "cos"))
TYPES = {"float32": "float", "int64": "long long", "bool": "bool"}
STORED = CUDA_TYPES | {"float8_e4m3fn": "E4M3", "float8_e5m2": "E5M2"}
# As torch rounds: CUDA's own e5m2 saturates where torch has infinities.
FLOAT8 = """\
#include <cuda_fp8.h>
struct E4M3 : __nv_fp8_e4m3 {
  E4M3() = default;
  __device__ E4M3(float v) { __x = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3); }
  __device__ operator float() const { return static_cast<float>(static_cast<const __nv_fp8_e4m3&>(*this)); }
};
struct E5M2 : __nv_fp8_e5m2 {
  E5M2() = default;
  __device__ E5M2(float v) { __x = __nv_cvt_float_to_fp8(v, __NV_NOSAT, __NV_E5M2); }
  __device__ operator float() const { return static_cast<float>(static_cast<const __nv_fp8_e5m2&>(*this)); }
};
"""
HEADERS = {
    "float16": "#include <cuda_fp16.h>",
    "bfloat16": "#include <cuda_bf16.h>",
    "float8_e4m3fn": FLOAT8,
    "float8_e5m2": FLOAT8,
}


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


def depends_on_sizes(value: Number) -> bool:
    if isinstance(value, Formula):
        return any(depends_on_sizes(operand) for operand in value.operands)
    return isinstance(value, Extent)


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
        kind = kind or STORED[self.types.get(name, "float32")]
        both = Parameter(name, kind, written or bool(known and known.written), read or bool(known and known.read))
        self.parameters[name] = both
        return both.pointer

    @property
    def dynamic(self) -> bool:
        """Whether sizes are arguments of the kernel; what stays a definition has few values."""
        return self.genes.get("sizes") == DYNAMIC

    def define(self, name: str, python: str) -> None:
        begin = f'definitions_["{name}"] = '
        known = next((line for line in self.setup if line.startswith(begin)), begin + python)
        assert known == begin + python, f"{name} is {known.removeprefix(begin)} and {python}"
        self.setup.append(begin + python)

    def give(self, name: str, python: str, kind: str = "int") -> None:
        """A number that may have many values: a definition, or with dynamic sizes an argument of that name."""
        if self.dynamic:
            self.parameters[name] = Parameter(name, kind, read=False, value=f"kw.{PASSED[kind]}({python})")
        else:
            self.define(name, python)

    @property
    def constant(self) -> str:
        """How a variable is declared that holds a size."""
        return "const" if self.dynamic else "constexpr"

    def size(self, extent: Extent) -> str:
        return python_size(extent, self.sizes)

    def give_size(self, name: str, python: str) -> None:
        """A number of the plan that the kernel has as NAME_step, a constant or an argument."""
        self.setup.append(f"{name}_{self.step} = {python}")
        self.give(f"{name.upper()}_{self.step}", f"{name}_{self.step}")

    def settle(self, name: str, python: str) -> None:
        """As `set`; with dynamic sizes a number that has to be known, each value of which is a build of its own."""
        self.set(name, f"settled({python})" if self.dynamic else python)

    def widest(self, most: object, size: str) -> str:
        """Floats of a vector, in Python: with dynamic sizes as many as wanted or one, so that there are few builds."""
        return f"({most} if {size} % {most} == 0 else 1)" if self.dynamic else f"widest({most}, {size})"

    def set(self, name: str, python: str) -> None:
        """A number of the plan that the kernel has as a constant NAME_step."""
        self.setup.append(f"{name}_{self.step} = {python}")
        self.define(f"{name.upper()}_{self.step}", f"{name}_{self.step}")

    @property
    def plan_lines(self) -> str:
        return "\n".join(dict.fromkeys(self.setup))
