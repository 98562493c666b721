"""A third contract, as small as one can be: `.kwx` files with one expression for each output, for the CPU.

    # twice the input
    SCALE = 2  # tunable: SCALE = 2, 4
    out = SCALE * x

`NAME = EXPRESSION` on a line of its own. An output is computed element by element from the inputs; every other name is
a number for the lines below it. The source becomes C++ and is built as a cpp candidate is, in a file of its own name.
"""

from __future__ import annotations

import re

from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.cpp import CPP
from kernelwright.contracts.craft import Craft, CraftHint
from kernelwright.contracts.model import BuildPlan, Files, HostContract
from kernelwright.contracts.tunable_syntax import PYTHON_TUNABLES
from kernelwright.tasks.model import Signature, TensorSpec

_LINE = re.compile(r"(?P<name>[A-Za-z_]\w*) = (?P<value>\S.*)")


class ToyContract(HostContract):
    name = "toy"
    language = "One expression for each output, over elements of the inputs"
    form = "a .kwx file"
    suffixes = (".kwx",)
    source_name = "kernel.kwx"
    fence = "text"
    tunable_syntax = (PYTHON_TUNABLES,)
    craft = Craft(
        role="You are one of the best writers of expressions there are.",
        tunables="Write `# tunable: SCALE = 2, 4` on a line of its own.",
        hints=(CraftHint("Fewer operations", "Take a common factor out."),),
    )

    def signature_text(self, signatures: tuple[Signature, ...]) -> str:
        return "\n".join(f"{tensor.name} = EXPRESSION" for tensor in signatures[0].outputs)

    def skeleton(self, signatures: tuple[Signature, ...], task_name: str) -> str:
        lines = [f"{tensor.name} = 0" for tensor in signatures[0].outputs]
        return "\n".join([f"# A candidate for {task_name}.", *lines]) + "\n"

    def rules(self) -> tuple[str, ...]:
        return ("Write NAME = EXPRESSION on a line of its own for each output.", "A comment begins with #.")

    def split(self, source: str) -> Files:
        for number, line in enumerate(_bare(source), 1):
            if line and not _LINE.fullmatch(line):
                raise CandidateError(f"line {number} is not an assignment: write NAME = EXPRESSION")
        return super().split(source)

    def normalised(self, source: str) -> str:
        return "\n".join(" ".join(line.split()) for line in _bare(source) if line)

    def build_plan(self, candidate: Candidate, signature: Signature, *, sanitized: bool) -> BuildPlan:
        translated = Candidate(CPP.name, _translated(candidate.source, signature))
        plan = CPP.build_plan(translated, signature, sanitized=sanitized)
        renamed = ((name.replace(CPP.source_name, self.source_name), text) for name, text in plan.files)
        included = (f'"{CPP.source_name}"', f'"{self.source_name}"')
        return BuildPlan(tuple((name, text.replace(*included)) for name, text in renamed), plan.arguments)


def _bare(source: str) -> list[str]:
    return [line.partition("#")[0].strip() for line in source.splitlines()]


def _translated(source: str, signature: Signature) -> str:
    tensors = {argument.name: argument for argument in signature.arguments if isinstance(argument, TensorSpec)}
    outputs = {tensor.name for tensor in signature.outputs}
    body = []
    for line in filter(None, _bare(source)):
        name, _, value = line.partition(" = ")
        if name not in outputs:
            body.append(f"  const double {name} = {value};")
            continue
        elements = re.sub(
            r"\b[A-Za-z_]\w*\b", lambda word: f"{word[0]}.data[i]" if word[0] in tensors else word[0], value
        )
        body.append(f"  for (long i = 0; i < {name}.numel(); ++i) {name}.data[i] = {elements};")
    head = CPP.signature_text((signature,)).removesuffix(";")
    return "\n".join(["#include <kernelwright.h>", f"{head} {{", *body, "}"]) + "\n"


class PlainContract(ToyContract):
    """The toy without what has a default: no tunables, no normal form, nothing for prompts."""

    name = "plain"
    form = "a .kwp file"
    suffixes = (".kwp",)
    source_name = "kernel.kwp"
    tunable_syntax = ()
    craft = Craft()
    normalised = HostContract.normalised


TOY, PLAIN = ToyContract(), PlainContract()
