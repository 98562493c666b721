"""Makes a launch formula of a candidate's plan.py: the plan is called in the sandbox with sizes that are not known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from pydantic import ValidationError

from kernelwright.contracts.cuda.plan import Plan
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans, run_beside
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.portable import Case, FormulaError, LaunchFormula
from kernelwright.contracts.portable.reading import MalformedData, parsed
from kernelwright.contracts.symbolic import SymbolicSignature
from kernelwright.contracts.target import Target
from kernelwright.tasks.model import ScalarSpec, Signature

Sizes = Mapping[str, int]
SECONDS = 30.0  # the plan is called once for each of up to a thousand paths


def formula_of(plan: str, symbolic: SymbolicSignature, target: Target) -> LaunchFormula | BuildFailure:
    """A plan as data for all sizes in range, or the line of plan.py that cannot be said so."""
    sizes = [[size.name, size.least, size.most] for size in symbolic.sizes]
    arguments: list[dict[str, object]] = [
        {"name": argument.name, "value": argument.value}
        if isinstance(argument, ScalarSpec)
        else {"name": argument.name, "dtype": argument.dtype, "shape": argument.shape}
        for argument in symbolic.arguments
    ]
    request: dict[str, object] = {"device": asdict(target), "sizes": sizes, "arguments": arguments}
    content = run_beside(plan, "formulate.py", request, SECONDS)
    if isinstance(content, BuildFailure):
        return content
    try:
        return LaunchFormula.from_json(parsed(content))
    except (MalformedData, FormulaError) as error:
        return BuildFailure((f"plan.py: the formula is not of the closed form: {error}",))


def plan_at(formula: LaunchFormula, sizes: Sizes) -> Plan | BuildFailure:
    """The plan that a formula gives at some sizes, checked like one that was evaluated."""
    try:
        _, case = formula.at(sizes)
        return Plan.model_validate_json(json.dumps(case.to_json()))
    except FormulaError as error:
        return BuildFailure((f"plan.py: {error}",))
    except ValidationError as error:
        return BuildFailure(tuple(dict.fromkeys(f"plan.py: {entry['msg']}" for entry in error.errors())))


def listed_formula(
    plan: str, listed: Iterable[tuple[Sizes, Signature]], target: Target
) -> LaunchFormula | BuildFailure:
    """A case for each of the listed sizes, as the plan gives it there."""
    pairs = tuple(listed)
    plans = evaluate_plans(plan, tuple(signature for _, signature in pairs), target)
    if isinstance(plans, BuildFailure):
        return plans
    return LaunchFormula.of_listed([(sizes, case_of(made)) for (sizes, _), made in zip(pairs, plans, strict=True)])


def case_of(plan: Plan) -> Case:
    return Case.from_json(json.loads(plan.model_dump_json()))


def disagreement(
    plan: str, formula: LaunchFormula, at: Iterable[tuple[Sizes, Signature]], target: Target
) -> BuildFailure | None:
    """Where a formula and the plan itself differ. A plan can tell that sizes are not known and say something else."""
    pairs = tuple(at)
    plans = evaluate_plans(plan, tuple(signature for _, signature in pairs), target)
    if isinstance(plans, BuildFailure):
        return plans
    for (sizes, _), made in zip(pairs, plans, strict=True):
        if plan_at(formula, sizes) != made:
            shown = " ".join(f"{name}={value}" for name, value in sizes.items())
            return BuildFailure((f"plan.py: plan() and its formula differ at {shown}",))
    return None
