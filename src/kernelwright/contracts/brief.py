"""What an author is told about a task under a contract: the same words in documents, prompts and agent tools."""

from __future__ import annotations

import inspect
import textwrap

from pydantic import BaseModel, ConfigDict, Field

from kernelwright.contracts.model import Contract
from kernelwright.tasks.model import Task


class Brief(BaseModel):
    model_config = ConfigDict(frozen=True)

    task: str
    contract: str
    language: str
    doc: str
    reference: str
    signature: str
    rules: tuple[str, ...]
    public_workloads: tuple[str, ...]
    size_ranges: dict[str, tuple[int, int]]
    skeleton: str
    fence: str = Field(default="cpp", exclude=True)  # the language of signature and skeleton in Markdown

    def text(self) -> str:
        """As Markdown."""
        rules = "\n".join(f"- {rule}" for rule in self.rules)
        ranges = "\n".join(f"- {name}: {low} to {high}" for name, (low, high) in self.size_ranges.items())
        workloads = "\n".join(f"- {label}" for label in self.public_workloads)
        return (
            f"# {self.task} under the {self.contract} contract\n\n{self.doc.strip()}\n\n"
            f"## Reference\n```python\n{self.reference.strip()}\n```\n\n"
            f"## Signature\n{self.language}.\n```{self.fence}\n{self.signature}\n```\n\n"
            f"## Rules\n{rules}\n\n## Public workloads\n{workloads}\n\n"
            f"## Sizes that may be asked for, beside the public workloads\n{ranges}\n\n"
            f"## Skeleton\n```{self.fence}\n{self.skeleton}```\n"
        )


def brief(contract: Contract, task: Task) -> Brief:
    from kernelwright.tasks.drawing import signature  # imports torch, which takes seconds

    workloads = task.public_workloads()
    signatures = tuple(signature(task, workload) for workload in workloads)
    return Brief(
        task=task.name,
        contract=contract.name,
        language=contract.language,
        doc=task.doc,
        reference=_reference_source(task),
        signature=contract.signature_text(signatures),
        rules=contract.rules(),
        public_workloads=tuple(workload.label for workload in workloads),
        size_ranges={name: (low, high) for name, (low, high) in task.hidden.items()},
        skeleton=contract.skeleton(signatures, task.name),
        fence=contract.brief_fence,
    )


def _reference_source(task: Task) -> str:
    """The forward reference as its author wrote it; a derived gradient says that it is one."""
    function = inspect.unwrap(task.reference)
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return f"# {task.name}: the source of the reference is not available"
    if task.direction == "backward" and function is not task.reference:
        return f"{source}\n# The task is the gradient of this function with respect to its inputs, by autograd."
    return source
