"""The longest that prompts of a generation can be, so that an estimate is an upper bound.

A byte is taken for a token. So short texts of others are made of the widest characters there are; sources are bounded
in bytes already.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.contracts.candidate import MAX_BYTES
from kernelwright.insight.bottleneck import MOST_LAUNCHES, NAME_LENGTH
from kernelwright.insight.bottleneck import SENTENCES as ADVICE
from kernelwright.judge.baseline_names import TRAINING
from kernelwright.judge.verdict import DomainFailure, KernelUse
from kernelwright.judge.wording import SENTENCES, failure_words
from kernelwright.llm.model import Prompt
from kernelwright.proposers.llm.answers import NOTE_LENGTH
from kernelwright.proposers.llm.context import EXAMPLES, PromptContext
from kernelwright.proposers.llm.prompts import hints, render
from kernelwright.proposers.llm.shown import EVIDENCE_LINES, LINE_LENGTH, ON_PUBLIC
from kernelwright.proposers.llm.verifiers import OPINION_LENGTH, BottleneckDiagnosis
from kernelwright.proposers.llm.view import Mode, PromptStage, PromptView, ShownKernel, ShownTiming
from kernelwright.proposers.model import Lesson
from kernelwright.tasks.declarations import ValueKind

WIDE = "\U0001d54f"  # four bytes
SOURCE = "\n".join(["x" * 99] * (MAX_BYTES // 100))  # lines that fill an excerpt to the byte
PARENTS = 2  # of a cross
COUNTERS = 700  # bytes of a line of a profiler's table: a name of the widest characters and two dozen figures
SUMMARY = 1500  # and of the summary of the table


def lessons(count: int, length: int) -> tuple[Lesson, ...]:
    return (Lesson(WIDE * length, WIDE * length),) * count


def diagnosing(context: PromptContext) -> Prompt:
    return render(context.about(PromptStage.diagnose_bottleneck, _right(context)))


def evolving(context: PromptContext, learned: Sequence[Lesson]) -> Prompt:
    """Of the prompts that ask for a new kernel: one that translates shows no others."""
    known = [hint for _, hint in hints(context.contract)]
    words = WIDE * OPINION_LENGTH
    return _longest(
        context.about(PromptStage.evolve, _right(context)).model_copy(
            update={
                "subject": None,
                "parents": (_right(context),) * PARENTS,
                "examples": (_right(context),) * EXAMPLES,
                "lessons": tuple(learned),
                "hint": max(known, key=lambda hint: len(f"{hint.name}{hint.text}".encode()), default=None),
                "diagnosis": BottleneckDiagnosis(limit="launching", evidence=words, change=words, expected=words).text,
            }
        )
    )


def repairing(context: PromptContext, learned: Sequence[Lesson]) -> Prompt:
    return _longest(context.about(PromptStage.repair, _rejected()).model_copy(update={"lessons": tuple(learned)}))


def _longest(view: PromptView) -> Prompt:
    """The longest over all modes of writing the kernel. No seed has more than 48 bits."""
    prompts = [render(view.model_copy(update={"mode": mode, "variety": (1 << 48) - 1})) for mode in Mode]
    return max(prompts, key=lambda prompt: len(prompt.user.encode()))


def _right(context: PromptContext) -> ShownKernel:
    timings = tuple(_timing(one.label, on_gpu=context.device.kind == "cuda") for one in context.task.workloads)
    return ShownKernel(
        name=WIDE * NOTE_LENGTH, source=SOURCE, note=WIDE * NOTE_LENGTH, speedup=10_000.0, timings=timings
    )


def _rejected() -> ShownKernel:
    unseen = max((failure_words(DomainFailure(special=kind)) for kind in ValueKind), key=len)
    return ShownKernel(
        name=WIDE * NOTE_LENGTH,
        source=SOURCE,
        note=WIDE * NOTE_LENGTH,
        fault=f"{max(SENTENCES.values(), key=len)} {unseen}; {ON_PUBLIC}",
        evidence=(WIDE * LINE_LENGTH,) * EVIDENCE_LINES,
        failed_on_hidden=True,
        failed_on_values=True,
    )


def _timing(label: str, *, on_gpu: bool) -> ShownTiming:
    """Figures of as many digits as any have."""
    use = KernelUse(
        kernel=WIDE * NAME_LENGTH,
        registers=1000,
        spill_stores=1_000_000,
        spill_loads=1_000_000,
        static_shared=0,
        dynamic_shared=1_000_000,
        threads=1024,
        blocks_per_sm=1000,
        occupancy=1.0,
    )
    return ShownTiming(
        label=label,
        seconds=11.1e-6,
        baseline=TRAINING,
        baseline_seconds=11.1e-6,
        speedup=10_000.0,
        speedup_low=10_000.0,
        certain=False,
        bound_seconds=11.1e-6,
        bandwidth=11.1e12,
        of_bandwidth=1.0,
        operations=11.1e12,
        of_operations=1.0,
        launching=1.0,
        limit="",
        advice=max(ADVICE.values(), key=len),
        kernels=(use,) * MOST_LAUNCHES if on_gpu else (),
        counters=("x" * COUNTERS,) * (1 + MOST_LAUNCHES) if on_gpu else (),
        counted="x" * SUMMARY if on_gpu else "",
    )
