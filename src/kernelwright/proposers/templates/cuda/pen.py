"""What every writer of a kernel keeps: lines of the plan, and the memory that the kernel takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelwright.proposers.templates.cuda.expressions import TYPES, python_size
from kernelwright.proposers.templates.cuda.kernels import Parameter
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.graph import Extent, Graph
from kernelwright.proposers.templates.sizes import Sizes


@dataclass(kw_only=True)
class Pen:
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
