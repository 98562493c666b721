"""From a ModelNew to programs for its workloads: libraries found and built, calls recorded at two places, assembled."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.extension.source import check as check_extension
from kernelwright.contracts.extension.toolchain.nvcc import BuiltLibrary, build_library
from kernelwright.contracts.extension.toolchain.nvcc import version as nvcc_version
from kernelwright.contracts.model import BuildFailure, GpuBuild, GpuBuilt, LaunchedKernel
from kernelwright.contracts.modelnew.libraries import InlineLibrary
from kernelwright.contracts.modelnew.source import SOURCE_NAME, check, module_call
from kernelwright.contracts.modelnew.toolchain.record import (
    FIRST_LIBRARY,
    ModelNewAnswer,
    ModelNewRequest,
    record_once,
    record_twice,
    recorder_program,
)
from kernelwright.contracts.program import ProgramStep
from kernelwright.contracts.recorded.convert import to_program
from kernelwright.contracts.recorded.ownership import launches_that_count
from kernelwright.contracts.recorded.pointers import SAME, CannotReplay
from kernelwright.contracts.recorded.record import (
    Record,
    RecordedLaunch,
    RecordedLibrary,
    RecordRefusal,
    with_scalars,
)
from kernelwright.contracts.recorded.recorder import RecorderPool
from kernelwright.contracts.target import Target
from kernelwright.contracts.triton.toolchain.build import (
    MOST_SPARE,
    PROCESSES,
    TritonToolchain,
    asked_for,
    kernel_key,
    registers_of,
)
from kernelwright.contracts.triton.toolchain.ptxas import Assembled, absence, version
from kernelwright.contracts.triton.toolchain.record import PtxKernel, RegistersNeeded
from kernelwright.tasks.model import Signature

ROUNDS = 6  # of recording again, with what host code asked for
ARITHMETIC = ("kw_elementwise", "kw_sum")  # kernels of ours for torch's operators (triton/confined/arithmetic.py)


@dataclass(frozen=True)
class ModelNewBuilt:
    """`libraries` are the sources of what load_inline built, for the emulator."""

    build: GpuBuild
    libraries: tuple[InlineLibrary, ...]


class ModelNewToolchain:
    """Fresh recorders and builders for every candidate: nothing is kept that has met one. After a first build,
    recorders for `spare` more wait with torch and Triton imported."""

    def __init__(self, target: Target, spare: int = 0) -> None:
        self._target = target
        self._triton = TritonToolchain(target)
        self._recorders = RecorderPool(recorder_program, PROCESSES * min(spare, MOST_SPARE))

    @property
    def compiler(self) -> str:
        return f"nvcc {nvcc_version() or 'missing'} and triton {version()} for {self._target.architecture}"

    def build(self, candidate: Candidate, signatures: tuple[Signature, ...]) -> GpuBuild | BuildFailure:
        made = self.built(candidate, signatures)
        return made if isinstance(made, BuildFailure) else made.build

    def built(self, candidate: Candidate, signatures: tuple[Signature, ...]) -> ModelNewBuilt | BuildFailure:
        begin = time.perf_counter()
        if absence():
            return BuildFailure((absence(),))
        try:
            check(candidate.source)
            calls = [module_call(candidate.source, signature) for signature in signatures]
        except CandidateError as error:
            return BuildFailure((f"{SOURCE_NAME}: {error}",))
        registers: dict[str, tuple[int, int]] = {}
        libraries = {one.key: one for one in InlineLibrary.written(candidate.source)}
        built: dict[str, BuiltLibrary] = {}
        failures: dict[str, BuildFailure] = {}  # which count where a library is really asked for
        for turn in range(ROUNDS):
            self._build(libraries, built, failures)
            request = ModelNewRequest(candidate.source, calls, signatures, self._target, registers, built)
            looking = turn == 0 and not libraries and "cpp_extension" in candidate.source
            answers = record_once(request, self._recorders) if looking else record_twice(request, self._recorders)
            if isinstance(answers, BuildFailure):
                return answers
            wanted = {one.key: one for answer in answers for one in answer.wanted if one.key not in built}
            failed = next((failures[key] for key in wanted if key in failures), None)
            if failed is not None:
                return failed
            libraries |= wanted
            if wanted or looking:
                continue
            asked = asked_for(answers)
            assembled = self._triton.assembled([*asked, *_used(answers[0])])
            if isinstance(assembled, BuildFailure):
                return assembled
            if not asked:
                made = _programs(answers, signatures, assembled, built, begin)
                return (
                    made
                    if isinstance(made, BuildFailure)
                    else ModelNewBuilt(made, tuple(libraries[key] for key in built))
                )
            registers |= {kernel_key(kernel): registers_of(assembled[kernel_key(kernel)]) for kernel in asked}
        return BuildFailure((f"{SOURCE_NAME}: host code asks for more and more libraries or registers",))

    def _build(
        self, libraries: Mapping[str, InlineLibrary], built: dict[str, BuiltLibrary], failures: dict[str, BuildFailure]
    ) -> None:
        for key, library in libraries.items():
            if key in built or key in failures:
                continue
            try:
                check_extension(library.source)
                made = build_library(library.source, self._target)
            except CandidateError as error:
                made = BuildFailure((f"{SOURCE_NAME}: {error}",))
            if isinstance(made, BuildFailure):
                failures[key] = made
            else:
                built[key] = made

    def refill(self) -> None:
        self._recorders.refill()

    def close(self) -> None:
        self._recorders.close()


def _programs(
    answers: Sequence[ModelNewAnswer],
    signatures: Sequence[Signature],
    assembled: Mapping[str, Assembled],
    built: Mapping[str, BuiltLibrary],
    begin: float,
) -> GpuBuild | BuildFailure:
    made = []
    for place, signature in enumerate(signatures):
        program = _program([(answer, answer.calls[place]) for answer in answers], signature, assembled, built)
        if isinstance(program, BuildFailure):
            return program
        made.append(program)
    return GpuBuild(tuple(made), time.perf_counter() - begin)


def _used(answer: ModelNewAnswer) -> list[PtxKernel]:
    numbers = {
        step.module
        for call in answer.calls
        if isinstance(call, Record)
        for step in call.steps
        if isinstance(step, RecordedLaunch)
    }
    return [answer.kernels[number] for number in sorted(numbers) if number < len(answer.kernels)]


def _program(
    pair: Sequence[tuple[ModelNewAnswer, Record | RecordRefusal | RegistersNeeded]],
    signature: Signature,
    assembled: Mapping[str, Assembled],
    built: Mapping[str, BuiltLibrary],
) -> GpuBuilt | BuildFailure:
    records, modules = [], []
    for answer, call in pair:
        if isinstance(call, RecordRefusal):
            return BuildFailure((f"{SOURCE_NAME}: {call.refused}",))
        if isinstance(call, RegistersNeeded):
            return BuildFailure((f"{SOURCE_NAME}: two recordings of one call differ in what they ask for",))
        numbered = _numbered(answer, call)
        if isinstance(numbered, BuildFailure):
            return numbered
        records.append(with_scalars(numbered[0], signature))
        modules.append(numbered[1])
    if modules[0] != modules[1]:
        return BuildFailure((f"{SOURCE_NAME}: two recordings of one call compile different kernels: {SAME}",))
    missing = [key for key in modules[0] if key not in assembled and key not in built]
    if missing:
        return BuildFailure((f"{SOURCE_NAME}: a kernel of the record was not built",))
    cubins = tuple(assembled[key].cubin if key in assembled else built[key].cubin for key in modules[0])
    if not any(_is_own(step.function) for step in records[0].steps if isinstance(step, RecordedLaunch)):
        return BuildFailure((f"{SOURCE_NAME}: {_nothing_own(records[0])}",))
    try:
        program = to_program(records[0], records[1], signature, cubins)
    except CannotReplay as error:
        return BuildFailure((f"{SOURCE_NAME}: {error}",))
    if not launches_that_count(program, lambda step: _is_own(step.function)):
        return BuildFailure((f"{SOURCE_NAME}: no result depends on its own kernels: {_nothing_own(records[0])}",))
    digest = hashlib.sha256(b"".join(hashlib.sha256(cubin).digest() for cubin in cubins)).hexdigest()
    kernels = tuple(_launched(step, modules[0], assembled) for step in program.launches)
    cached = all(assembled[key].cached if key in assembled else built[key].cached for key in modules[0])
    return GpuBuilt(program, cubins, digest, kernels, cached)


def _is_own(function: str) -> bool:
    return function not in ARITHMETIC


def _nothing_own(record: Record) -> str:
    names = list(dict.fromkeys(step.operator for step in record.steps if isinstance(step, RecordedLibrary)))
    if not record.steps:
        return "forward launches no kernel"
    shown = ", ".join([*names[:6], *(["…"] if len(names) > 6 else [])]) or "arithmetic"
    return f"torch alone computes the result ({shown}): a candidate needs a kernel of its own"


def _numbered(answer: ModelNewAnswer, call: Record) -> tuple[Record, list[str]] | BuildFailure:
    """The record with the modules of this call alone, in the order of their first launch, and their keys."""
    keys: list[str] = []
    steps = []
    for step in call.steps:
        if isinstance(step, RecordedLaunch):
            library = step.module - FIRST_LIBRARY
            known = answer.libraries if library >= 0 else answer.kernels
            if max(library, step.module if library < 0 else 0) >= len(known):
                return BuildFailure((f"{SOURCE_NAME}: {step.function} is of a module that does not exist",))
            key = answer.libraries[library] if library >= 0 else kernel_key(answer.kernels[step.module])
            if key not in keys:
                keys.append(key)
            step = step.model_copy(update={"module": keys.index(key)})
        steps.append(step)
    return call.model_copy(update={"steps": tuple(steps)}), keys


def _launched(step: ProgramStep, keys: Sequence[str], assembled: Mapping[str, Assembled]) -> LaunchedKernel:
    found = assembled.get(keys[step.module])
    report = next((one for one in found.resources if one.kernel == step.function), None) if found else None
    spilled = (report.spill_stores, report.spill_loads) if report else (0, 0)
    return LaunchedKernel(step.function, *spilled, own=_is_own(step.function))
