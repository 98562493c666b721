"""All that a prompt can be made from. No type in here has a place for anything hidden.

A verdict of the auditor's, a workload, a task or a key cannot be put into a `PromptView`: its fields are texts and
numbers about public workloads, and `shown` makes them from the author's view alone. A test walks through the types.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from pydantic import BaseModel, ConfigDict

from kernelwright.contracts.brief import Brief
from kernelwright.judge.verdict import KernelUse
from kernelwright.proposers.model import Lesson


class PromptStage(Enum):
    """What is wanted of a model. The value of a stage is the name of its template."""

    translate = "translate"
    repair = "repair"
    evolve = "evolve"
    diagnose_error = "diagnose-error"
    diagnose_bottleneck = "diagnose-bottleneck"
    verify_compilation = "verify-compilation"
    verify_memory = "verify-memory"
    verify_numerics = "verify-numerics"
    verify_cheating = "verify-cheating"

    def __str__(self) -> str:
        return self.value


VERIFIERS = (
    PromptStage.verify_compilation,
    PromptStage.verify_memory,
    PromptStage.verify_numerics,
    PromptStage.verify_cheating,
)


class Mode(StrEnum):
    """How an evolved kernel is to be written: whole, as changes of its parent, or from several parents."""

    rewrite = "rewrite"
    edit = "edit"
    crossover = "crossover"


class Shown(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ShownWorkload(Shown):
    """A public workload: what a kernel is given, and what it takes at least."""

    label: str
    arguments: tuple[str, ...]
    moved_bytes: int
    operations: int


class ShownTask(Shown):
    reference: str  # as a person types it
    brief: Brief
    workloads: tuple[ShownWorkload, ...]


class ShownDevice(Shown):
    """`facts` are sentences; the numbers are peaks, None where they were not measured yet."""

    name: str
    kind: str
    facts: tuple[str, ...] = ()
    bandwidth: float | None = None
    operations: float | None = None
    launch: float = 0.0


class ShownTiming(Shown):
    """A public workload's time, and what it says. Rates are of what the workload needs at least, over the time."""

    label: str
    seconds: float
    baseline: str
    baseline_seconds: float
    speedup: float
    speedup_low: float
    certain: bool
    bound_seconds: float | None
    bandwidth: float | None
    of_bandwidth: float | None
    operations: float | None
    of_operations: float | None
    launching: float
    limit: str
    advice: str
    kernels: tuple[KernelUse, ...] = ()
    counters: tuple[str, ...] = ()  # a table of what a profiler saw, and what it says
    counted: str = ""


class ShownKernel(Shown):
    """A candidate as its author knows it. `speedup` is a mean over public workloads; None: not accepted, or untimed."""

    name: str
    source: str
    note: str = ""
    outcome: str = ""
    fault: str = ""
    evidence: tuple[str, ...] = ()
    failed_on_hidden: bool = False
    failed_on_values: bool = False  # special ones, whose kind `fault` names
    speedup: float | None = None
    timings: tuple[ShownTiming, ...] = ()


class Hint(Shown):
    name: str
    text: str


class PromptView(Shown):
    """What a template sees, and nothing else."""

    stage: PromptStage
    contract: str
    task: ShownTask
    device: ShownDevice
    mode: Mode = Mode.rewrite
    subject: ShownKernel | None = None  # what is to be repaired, diagnosed or verified
    parents: tuple[ShownKernel, ...] = ()
    examples: tuple[ShownKernel, ...] = ()  # right ones, slowest first
    lessons: tuple[Lesson, ...] = ()
    hint: Hint | None = None
    diagnosis: str = ""
    variety: int = 0  # tells apart prompts that are otherwise the same
