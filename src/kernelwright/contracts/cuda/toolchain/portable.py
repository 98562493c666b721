"""From a `cuda` candidate to a portable kernel: its launch formula, and modules for the cases that sizes lead to."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping

from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.cuda.plan import Plan
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.toolchain.build import PlanEvaluator, compile_all, compile_requests
from kernelwright.contracts.cuda.toolchain.builder import BuilderPool
from kernelwright.contracts.cuda.toolchain.formulate import disagreement, formula_of, listed_formula, plan_at
from kernelwright.contracts.model import BuildFailure, PortableBuild, PortableRequest
from kernelwright.contracts.portable import FormulaError, LaunchFormula, Module, PortableKernel, Variant, digest_of
from kernelwright.contracts.portable.reading import MalformedData
from kernelwright.contracts.symbolic import SymbolicSignature
from kernelwright.contracts.target import Target
from kernelwright.tasks.model import Signature

SAMPLED = 2000  # sizes of the domain, to find the cases that are worth a module
MOST_MODULES = 64


def build_portable(candidate: Candidate, request: PortableRequest) -> PortableBuild | BuildFailure:
    """One formula for all sizes where the plan can be said so, else the listed sizes, each with a case of its own."""
    try:
        sources = split(candidate.source)
    except CandidateError as error:
        return BuildFailure((str(error),))
    formula = formula_of(sources.plan, request.symbolic, request.target)
    if not isinstance(formula, BuildFailure):
        formula = disagreement(sources.plan, formula, request.listed, request.target) or formula
    note = formula.lines[-1] if isinstance(formula, BuildFailure) else ""
    if isinstance(formula, BuildFailure):
        formula = listed_formula(sources.plan, request.listed, request.target)
    if isinstance(formula, BuildFailure):
        return formula
    made = _modules(sources.kernel, formula, request)
    if isinstance(made, BuildFailure):
        return made
    variant, binaries = made
    shapes, arguments = request.symbolic.portable()
    kernel = PortableKernel(request.task, "cuda", request.symbolic.sizes, shapes, arguments, variants=(variant,))
    return PortableBuild(kernel, binaries, note)


def through(formula: LaunchFormula, sizes: Mapping[Signature, Mapping[str, int]]) -> PlanEvaluator:
    """Takes plans from a formula, so that a candidate can be built and judged as it will be used elsewhere."""

    def evaluate(plan: str, signatures: tuple[Signature, ...], target: Target) -> tuple[Plan, ...] | BuildFailure:
        plans = []
        for signature in signatures:
            made = plan_at(formula, sizes[signature])
            if isinstance(made, BuildFailure):
                return made
            plans.append(made)
        return tuple(plans)

    return evaluate


def _modules(
    source: str, formula: LaunchFormula, request: PortableRequest
) -> tuple[Variant, dict[str, bytes]] | BuildFailure:
    target = request.target
    plans = _plans(formula, request)
    if isinstance(plans, BuildFailure):
        return plans
    requests = dict(zip(plans, compile_requests(source, tuple(plans.values())), strict=True))
    distinct = list(dict.fromkeys(requests.values()))
    pool = BuilderPool(target.architecture, 0)
    try:
        compiled = dict(zip(distinct, compile_all(distinct, target, pool), strict=True))
    finally:
        pool.close()
    modules: dict[Module, int] = {}
    binaries: dict[str, bytes] = {}
    builds: list[tuple[int, ...]] = [()] * len(formula.cases)
    for case, wanted in requests.items():
        made = compiled[wanted]
        if isinstance(made, BuildFailure):
            return made
        module = Module(digest_of(made.result.cubin), tuple(sorted(made.result.names.items())))
        builds[case] = (modules.setdefault(module, len(modules)),)
        binaries[module.digest] = made.result.cubin
    device = (target.architecture, target.multiprocessors, target.shared_per_block, target.l2_bytes)
    try:
        return Variant(*device, formula, tuple(modules), tuple(builds)), binaries
    except MalformedData as error:
        return BuildFailure((f"plan.py: {error}",))


def _plans(formula: LaunchFormula, request: PortableRequest) -> dict[int, Plan] | BuildFailure:
    """A plan for each case that is worth a module: those of the listed sizes, and then the most frequent ones."""
    found: dict[int, Plan] = {}
    for sizes, _ in request.listed:
        made = plan_at(formula, sizes)
        if isinstance(made, BuildFailure):
            return made
        found.setdefault(formula.case_at(sizes), made)
    seen: Counter[int] = Counter()
    places: dict[int, dict[str, int]] = {}
    for sizes in sampled(request.symbolic) if not formula.listed else ():
        try:
            case = formula.case_at(sizes)
        except FormulaError:
            continue
        seen[case] += 1
        places.setdefault(case, sizes)
    builds = {formula.cases[case].build for case in found}
    for case, _ in seen.most_common():
        builds.add(formula.cases[case].build)
        if len(builds) > MOST_MODULES:
            break
        made = plan_at(formula, places[case])
        if isinstance(made, Plan):
            found.setdefault(case, made)
    return found


def sampled(symbolic: SymbolicSignature) -> Iterator[dict[str, int]]:
    """Sizes all over the ranges, even on a logarithmic scale, half of them multiples of powers of two."""
    chance = random.Random(0)
    for number in range(SAMPLED):
        sizes = {}
        for size in symbolic.sizes:
            spread = math.log(max(size.least, 1)), math.log(max(size.most, 1))
            value = round(math.exp(chance.uniform(*spread)))
            value -= value % (1 << chance.randrange(8)) if number % 2 else 0
            sizes[size.name] = min(size.most, max(size.least, value))
        yield sizes
