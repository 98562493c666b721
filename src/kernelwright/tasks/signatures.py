"""What a kernel receives: its arguments with every size known. Contracts go by it, and by no declaration."""

from __future__ import annotations

from dataclasses import dataclass

Scalar = int | float | bool


@dataclass(frozen=True)
class TensorSpec:
    """A concrete tensor argument: what the arena reserves and what a contract declares."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements, and row-major for every tensor of every task today (`row_major`)
    role: str  # "input", "constant", "inout" or "output"


@dataclass(frozen=True)
class ScalarSpec:
    name: str
    value: Scalar


@dataclass(frozen=True)
class ModuleForm:
    """How a problem's module is made and what it holds, for contracts whose candidates are modules as well.

    `initial` is what its constructor takes, as JSON (`tasks.imported.traced.InitialValue`); `held` are the arguments
    that are parameters or buffers of the module, each with its name there, in the order in which it makes them; `fixed`
    has the places and, as JSON, the values of what it is called with besides the arguments of the task.
    """

    initial: str
    held: tuple[tuple[str, str], ...]
    fixed: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Signature:
    """Arguments in the order in which a kernel receives them: inputs as declared, then outputs."""

    arguments: tuple[TensorSpec | ScalarSpec, ...]
    module: ModuleForm | None = None

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return tuple(a for a in self.arguments if isinstance(a, TensorSpec))

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return tuple(t for t in self.tensors if t.role == "output")
