"""From an extension to programs for its workloads: built once, recorded for each."""

from __future__ import annotations

import time

from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.extension.source import check
from kernelwright.contracts.extension.toolchain.nvcc import build_library, parts, version
from kernelwright.contracts.extension.toolchain.record import record_program
from kernelwright.contracts.model import BuildFailure, GpuBuild, GpuBuilt, LaunchedKernel
from kernelwright.contracts.target import Target
from kernelwright.tasks.model import Signature

__all__ = ["ExtensionToolchain", "parts"]


class ExtensionToolchain:
    """A fresh builder for every candidate and a fresh recorder for every call: nothing is kept warm."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def compiler(self) -> str:
        return f"nvcc {version()} for {self._target.architecture}"

    def build(self, candidate: Candidate, signatures: tuple[Signature, ...]) -> GpuBuild | BuildFailure:
        begin = time.perf_counter()
        try:
            check(candidate.source)
        except CandidateError as error:
            return BuildFailure((str(error),))
        library = build_library(candidate.source, self._target)
        if isinstance(library, BuildFailure):
            return library
        built = []
        for signature in signatures:
            program = record_program(candidate.source, library, signature, self._target)
            if isinstance(program, BuildFailure):
                return program
            kernels = tuple(LaunchedKernel(step.function) for step in program.launches)
            built.append(GpuBuilt(program, (library.cubin,), library.digest, kernels, library.cached))
        return GpuBuild(tuple(built), time.perf_counter() - begin)

    def refill(self) -> None:
        """There is nothing to start early."""

    def close(self) -> None:
        """Nothing is left running."""
