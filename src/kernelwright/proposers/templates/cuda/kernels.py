"""A kernel of a rendered candidate, and how kernels that do not need each other share a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    name: str  # of a tensor or of memory that the plan made
    type: str  # of an element
    written: bool = False
    read: bool = True

    @property
    def text(self) -> str:
        return f"{'' if self.written else 'const '}{self.type}* __restrict__ {self.pointer}"

    @property
    def pointer(self) -> str:
        """Its name in CUDA, where no other variable begins like this."""
        return f"p_{self.name}"


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

    def function(self) -> str:
        declared = "".join(f", {parameter.text}" for parameter in self.parameters)
        head = f"__device__ __forceinline__ void {self.name}(const int block, const int blocks{declared})"
        return f"{self.before}{head} {{\n{self.body}}}\n"

    @property
    def reads(self) -> set[str]:
        return {parameter.name for parameter in self.parameters if parameter.read}

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

    def needs(self, kernel: Kernel) -> bool:
        """Whether the kernel must wait for this launch, or must not run beside it."""
        return any(one.writes & (kernel.reads | kernel.writes) or one.reads & kernel.writes for one in self.kernels)

    def text(self, *, waits: bool, lets: bool) -> str:
        """Blocks are numbered through the kernels in order; threads that a kernel has no use for leave."""
        parameters = merged(self.kernels)
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
            lines.append(f'definitions_["BLOCKS_{kernel.name}"] = blocks_{kernel.name}')
            lines.append(f'definitions_["THREADS_{kernel.name}"] = threads_{kernel.name}')
        lines.append(f"blocks_ = {' + '.join(f'blocks_{name}' for name in names)}")
        lines.append(f"threads_ = max([{', '.join(f'threads_{name}' for name in names)}])")
        lines.append(f'definitions_["THREADS_{self.number}"] = threads_')
        lines.append(f'definitions_["LEAST_{self.number}"] = min({_least(self.kernels)}, 2048 // threads_)')
        pointers = ", ".join(parameter.name for parameter in merged(self.kernels))
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


def scheduled(kernels: Sequence[Kernel], *, share: bool) -> list[KernelLaunch]:
    """Each kernel in the first launch after all that it needs, where neither it nor that launch keeps to itself."""
    launches: list[KernelLaunch] = []
    for kernel in kernels:
        apart = kernel.cooperative != "False" or kernel.heavy
        needed = max((number for number, launch in enumerate(launches) if launch.needs(kernel)), default=-1)
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
