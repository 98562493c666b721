"""From a `cuda` candidate to programs for its workloads: plans evaluated, kernels compiled, artefacts kept."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial

from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.cuda.plan import Plan
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.toolchain.builder import (
    Builder,
    BuilderPool,
    CompileRequest,
    CompileResult,
    fixed_options,
)
from kernelwright.contracts.cuda.toolchain.cubin import parameter_sizes, resources
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans, evaluators
from kernelwright.contracts.cuda.toolchain.resolve import resolve
from kernelwright.contracts.model import BuildFailure, GpuBuild, GpuBuilt, LaunchedKernel
from kernelwright.contracts.nvrtc import version
from kernelwright.contracts.program import Program
from kernelwright.contracts.target import Target
from kernelwright.errors import CannotDecide
from kernelwright.paths import cache_dir, write_whole
from kernelwright.tasks.model import Signature

PARALLEL = 4
PlanEvaluator = Callable[[str, tuple[Signature, ...], Target], tuple[Plan, ...] | BuildFailure]


class CudaToolchain:
    """NVRTC in confined processes, `spare` of which are kept warm, and as many that evaluate plans. One that has met a
    candidate is never reused."""

    def __init__(self, target: Target, spare: int = 0) -> None:
        self._target = target
        self._pool = BuilderPool(target.architecture, spare)
        self._evaluators = evaluators(spare)
        self._evaluators.refill()

    @property
    def compiler(self) -> str:
        return f"NVRTC {'.'.join(map(str, version()))} for {self._target.architecture}"

    def build(self, candidate: Candidate, signatures: tuple[Signature, ...]) -> GpuBuild | BuildFailure:
        evaluate = partial(evaluate_plans, pool=self._evaluators)
        return build_cuda(candidate, signatures, self._target, self._pool, evaluate)

    def refill(self) -> None:
        self._pool.refill()
        self._evaluators.refill()

    def close(self) -> None:
        self._pool.close()
        self._evaluators.close()


def build_cuda(
    candidate: Candidate,
    signatures: tuple[Signature, ...],
    target: Target,
    pool: BuilderPool,
    evaluate: PlanEvaluator = evaluate_plans,
) -> GpuBuild | BuildFailure:
    """Evaluates the plan for every signature and compiles what they need, several modules at a time.

    With another `evaluate` the plans come from elsewhere: from a formula (toolchain/portable.py). A failure may
    quote sizes of any of the signatures: build public and hidden workloads in calls of their own.
    """
    begin = time.perf_counter()
    try:
        sources = split(candidate.source)
    except CandidateError as error:
        return BuildFailure((str(error),))
    plans = evaluate(sources.plan, signatures, target)
    if isinstance(plans, BuildFailure):
        return plans
    requests = compile_requests(sources.kernel, plans)
    distinct = list(dict.fromkeys(requests))
    compiled = dict(zip(distinct, compile_all(distinct, target, pool), strict=True))
    built = []
    for plan, request, signature in zip(plans, requests, signatures, strict=True):
        made = compiled[request]
        if isinstance(made, BuildFailure):
            return made
        program = resolve(plan, signature, made.result.names)
        if isinstance(program, BuildFailure):
            return program
        fault = misfits(program, made.result)
        if fault is not None:
            return fault
        built.append(GpuBuilt(program, (made.result.cubin,), made.digest, _kernels(plan, made.result), made.cached))
    return GpuBuild(tuple(built), time.perf_counter() - begin)


@dataclass(frozen=True)
class CompiledModule:
    result: CompileResult
    digest: str
    cached: bool


def _kernels(plan: Plan, result: CompileResult) -> tuple[LaunchedKernel, ...]:
    reported = {entry.kernel: entry for entry in resources(result.log)}
    found = []
    for launch in plan.launches:
        entry = reported.get(result.names[launch.kernel])
        spills = (entry.spill_stores, entry.spill_loads) if entry else (0, 0)
        found.append(LaunchedKernel(launch.kernel, *spills))
    return tuple(found)


_CompileSettings = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]


def compile_requests(source: str, plans: tuple[Plan, ...]) -> list[CompileRequest]:
    """What to compile for each plan. Plans that differ in kernels alone share a module: reading the source once is
    faster than several times."""
    kernels: dict[_CompileSettings, dict[str, None]] = {}
    for plan in plans:
        kernels.setdefault(_compile_settings(plan), {}).update(dict.fromkeys(plan.kernels))
    return [CompileRequest(source, tuple(kernels[_compile_settings(plan)]), *_compile_settings(plan)) for plan in plans]


def _compile_settings(plan: Plan) -> _CompileSettings:
    options = [f"--std={plan.options.std}"]
    if plan.options.fast_math:
        options.append("--use_fast_math")
    if plan.options.max_registers is not None:
        options.append(f"--maxrregcount={plan.options.max_registers}")
    return plan.definitions, tuple(options)


def compile_all(
    requests: list[CompileRequest], target: Target, pool: BuilderPool
) -> list[CompiledModule | BuildFailure]:
    """From the cache, or by as many compilers as are worth it; all of them for this candidate alone."""
    found: dict[CompileRequest, CompiledModule | BuildFailure] = {}
    for request in requests:
        kept = _cached(request, target)
        if kept is not None:
            found[request] = kept
    missing = [request for request in requests if request not in found]
    compilers = min(len(missing), pool.warm or PARALLEL)  # starting another takes longer than most sources do
    groups = [missing[start::compilers] for start in range(compilers)]
    if groups:
        with ThreadPoolExecutor(len(groups)) as threads:
            for group, results in zip(
                groups, threads.map(lambda g: _compile_group(g, target, pool), groups), strict=True
            ):
                found.update(zip(group, results, strict=True))
    return [found[request] for request in requests]


def _compile_group(
    requests: list[CompileRequest], target: Target, pool: BuilderPool
) -> list[CompiledModule | BuildFailure]:
    builder = pool.take(requests[0].source)
    try:
        return [_compile(builder, request, target) for request in requests]
    finally:
        pool.retire(builder)


def _compile(builder: Builder, request: CompileRequest, target: Target) -> CompiledModule | BuildFailure:
    result = builder.compile(request)
    if isinstance(result, BuildFailure):
        return result
    digest = _digest(request, target)
    head = json.dumps({"names": result.names, "log": result.log}).encode()
    try:
        folder = cache_dir("cuda", digest[:2])
        write_whole(folder / f"{digest}.kernel", len(head).to_bytes(8, "little") + head + result.cubin)
    except OSError as error:
        raise CannotDecide(f"cannot write the build cache: {error.strerror}: {error.filename}") from error
    return CompiledModule(result, digest, cached=False)


def _cached(request: CompileRequest, target: Target) -> CompiledModule | None:
    """One file has everything, so that a crash leaves all of it or nothing."""
    digest = _digest(request, target)
    path = cache_dir("cuda", digest[:2]) / f"{digest}.kernel"
    if not path.exists():
        return None
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + size])
    return CompiledModule(CompileResult(content[8 + size :], head["names"], head["log"]), digest, cached=True)


def _digest(request: CompileRequest, target: Target) -> str:
    told = {"request": asdict(request), "options": fixed_options(target.architecture), "nvrtc": version()}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def misfits(program: Program, result: CompileResult) -> BuildFailure | None:
    """Holds the plan's arguments against the kernels' own, where the cubin can be read; the launcher does so again."""
    expressions = {mangled: name for name, mangled in result.names.items()}
    sizes = parameter_sizes(result.cubin)
    for step in program.launches:
        given = [argument.size for argument in step.arguments]
        wanted = sizes.get(step.function)
        if wanted is not None and given != list(wanted):
            return BuildFailure(
                (
                    f"plan.py: {expressions[step.function]} takes {_described(wanted)} and the plan gives "
                    f"{_described(given)}",
                )
            )
    return None


def _described(sizes: tuple[int, ...] | list[int]) -> str:
    return f"{len(sizes)} arguments of {', '.join(map(str, sizes))} bytes" if sizes else "no arguments"
