"""From a Triton module to programs for its workloads: recorded at two places, assembled, held against each other."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.model import BuildFailure, GpuBuild, GpuBuilt, LaunchedKernel
from kernelwright.contracts.program import Program
from kernelwright.contracts.recorded.convert import to_program
from kernelwright.contracts.recorded.pointers import SAME, CannotReplay
from kernelwright.contracts.recorded.record import Record, RecordedLaunch, RecordRefusal, with_scalars
from kernelwright.contracts.recorded.recorder import RecorderPool
from kernelwright.contracts.target import Target
from kernelwright.contracts.triton.source import SOURCE_NAME, check, module_call
from kernelwright.contracts.triton.toolchain.ptxas import Assembled, absence, assemble, version
from kernelwright.contracts.triton.toolchain.record import (
    PtxKernel,
    RecorderAnswer,
    RecordingRequest,
    RegistersNeeded,
    record_twice,
    recorder_program,
)
from kernelwright.tasks.model import Signature

MOST_SPARE = 2  # a waiting recorder takes 400 MB
PROCESSES = 2  # for a build that records once: one for each place in memory
ROUNDS = 4  # of recording again, with the registers that host code asked for
MOST_WORKERS = 4
MOST_KERNELS = 256  # different ones, of all calls
ASSEMBLY_SECONDS = 300.0  # for all of them together


class TritonToolchain:
    """Fresh recorders for every candidate: nothing is kept that has met one. After a first build, recorders for `spare`
    more wait with torch and Triton imported, which takes longer than all else."""

    def __init__(self, target: Target, spare: int = 0) -> None:
        self._target = target
        self._recorders = RecorderPool(recorder_program, PROCESSES * min(spare, MOST_SPARE))

    @property
    def compiler(self) -> str:
        return f"triton {version()} for {self._target.architecture}"

    def build(self, candidate: Candidate, signatures: tuple[Signature, ...]) -> GpuBuild | BuildFailure:
        begin = time.perf_counter()
        if absence():
            return BuildFailure((absence(),))
        try:
            check(candidate.source)
            calls = [module_call(candidate.source, signature) for signature in signatures]
        except CandidateError as error:
            return BuildFailure((f"{SOURCE_NAME}: {error}",))
        registers: dict[str, tuple[int, int]] = {}
        for _ in range(ROUNDS):
            request = RecordingRequest(candidate.source, calls, signatures, self._target, registers)
            answers = record_twice(request, self._recorders)
            if isinstance(answers, BuildFailure):
                return answers
            asked = asked_for(answers)
            assembled = self.assembled([*asked, *_used(answers[0])])
            if isinstance(assembled, BuildFailure):
                return assembled
            if not asked:
                return _programs(answers, signatures, assembled, begin)
            registers |= {kernel_key(kernel): registers_of(assembled[kernel_key(kernel)]) for kernel in asked}
        return BuildFailure((f"{SOURCE_NAME}: host code asks for the registers of more and more kernels",))

    def assembled(self, kernels: Sequence[PtxKernel]) -> dict[str, Assembled] | BuildFailure:
        """By the hash of the PTX; each once."""
        distinct = {kernel_key(kernel): kernel for kernel in kernels}
        if len(distinct) > MOST_KERNELS:
            return BuildFailure((f"{SOURCE_NAME}: {len(distinct)} kernels; at most {MOST_KERNELS} are built",))
        found: dict[str, Assembled] = {}
        until = time.monotonic() + ASSEMBLY_SECONDS
        with ThreadPoolExecutor(min(MOST_WORKERS, os.cpu_count() or 1)) as pool:
            jobs = {
                key: pool.submit(assemble, kernel.ptx, self._target, fused=kernel.fused, until=until)
                for key, kernel in distinct.items()
            }
            for key, job in jobs.items():
                made = job.result()
                if isinstance(made, BuildFailure):
                    pool.shutdown(wait=False, cancel_futures=True)
                    lines = tuple(f"{distinct[key].name}: {line}" for line in made.lines)
                    return BuildFailure(lines, made.timed_out)
                found[key] = made
        return found

    def refill(self) -> None:
        self._recorders.refill()

    def close(self) -> None:
        self._recorders.close()


def kernel_key(kernel: PtxKernel) -> str:
    """As the recorder's driver names a kernel whose registers it knows."""
    return hashlib.sha256((b"1" if kernel.fused else b"0") + kernel.ptx.encode()).hexdigest()


def registers_of(assembled: Assembled) -> tuple[int, int]:
    most = max(assembled.resources, key=lambda one: one.registers, default=None)
    return (most.registers, most.spill_stores // 4) if most else (255, 0)


def asked_for(answers: Sequence[RecorderAnswer]) -> list[PtxKernel]:
    return [
        answer.kernels[number]
        for answer in answers
        for call in answer.calls
        if isinstance(call, RegistersNeeded)
        for number in call.needs
        if number < len(answer.kernels)
    ]


def _used(answer: RecorderAnswer) -> list[PtxKernel]:
    numbers = {
        step.module
        for call in answer.calls
        if isinstance(call, Record)
        for step in call.steps
        if isinstance(step, RecordedLaunch)
    }
    return [answer.kernels[number] for number in sorted(numbers) if number < len(answer.kernels)]


def _programs(
    answers: tuple[RecorderAnswer, RecorderAnswer],
    signatures: Sequence[Signature],
    assembled: dict[str, Assembled],
    begin: float,
) -> GpuBuild | BuildFailure:
    built = []
    for place, signature in enumerate(signatures):
        made = _program([(answer, answer.calls[place]) for answer in answers], signature, assembled)
        if isinstance(made, BuildFailure):
            return made
        built.append(made)
    return GpuBuild(tuple(built), time.perf_counter() - begin)


def _program(
    pair: Sequence[tuple[RecorderAnswer, Record | RecordRefusal | RegistersNeeded]],
    signature: Signature,
    assembled: dict[str, Assembled],
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
    missing = [key for key in modules[0] if key not in assembled]
    if missing:
        return BuildFailure((f"{SOURCE_NAME}: a kernel of the record was not compiled",))
    used = [assembled[key] for key in modules[0]]
    cubins = tuple(one.cubin for one in used)
    try:
        program = to_program(records[0], records[1], signature, cubins)
    except CannotReplay as error:
        return BuildFailure((f"{SOURCE_NAME}: {error}",))
    digest = hashlib.sha256(b"".join(hashlib.sha256(cubin).digest() for cubin in cubins)).hexdigest()
    return GpuBuilt(program, cubins, digest, _kernels(program, used), all(one.cached for one in used))


def _numbered(answer: RecorderAnswer, call: Record) -> tuple[Record, list[str]] | BuildFailure:
    """The record with the modules of this call alone, in the order of their first launch, and their keys."""
    keys: list[str] = []
    steps = []
    for step in call.steps:
        if isinstance(step, RecordedLaunch):
            if step.module >= len(answer.kernels):
                return BuildFailure((f"{SOURCE_NAME}: {step.function} is of a module that does not exist",))
            key = kernel_key(answer.kernels[step.module])
            if key not in keys:
                keys.append(key)
            step = step.model_copy(update={"module": keys.index(key)})
        steps.append(step)
    return call.model_copy(update={"steps": tuple(steps)}), keys


def _kernels(program: Program, used: Sequence[Assembled]) -> tuple[LaunchedKernel, ...]:
    found = []
    for step in program.launches:
        report = next((one for one in used[step.module].resources if one.kernel == step.function), None)
        spills = (report.spill_stores, report.spill_loads) if report else (0, 0)
        found.append(LaunchedKernel(step.function, *spills))
    return tuple(found)
