"""One ModelNew for the check without a GPU: what the recorder says of it, and a process that runs it on real values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.extension.emulate.emulation import function_library
from kernelwright.contracts.extension.values import advice_on_torch
from kernelwright.contracts.host_build import build_as
from kernelwright.contracts.model import BuildFailure, InterpretedPlan
from kernelwright.contracts.modelnew.libraries import InlineLibrary
from kernelwright.contracts.modelnew.source import SOURCE_NAME, check, module_call
from kernelwright.contracts.modelnew.toolchain.build import ModelNewToolchain
from kernelwright.contracts.modelnew.toolchain.record import CONFINED, FOLDERS, call_text
from kernelwright.contracts.target import Target
from kernelwright.contracts.triton.configurations import choices
from kernelwright.contracts.triton.toolchain.record import VARIABLES, boot, device_text, visible
from kernelwright.devices import lock
from kernelwright.tasks.model import Signature

START_SECONDS = 120.0


class ModelNewEmulation:
    def __init__(self, source: str) -> None:
        check(source)
        self._source = source

    def builds(
        self, signatures: tuple[Signature, ...], target: Target, *, sanitized: bool
    ) -> Iterator[InterpretedPlan | BuildFailure]:
        """The module is compiled and recorded first: what runs here takes much that a record does not."""
        with lock.working():
            made = ModelNewToolchain(target).built(Candidate("modelnew", self._source), signatures)
        if isinstance(made, BuildFailure):
            yield made
            return
        emulated = _emulated(made.libraries, target)
        if isinstance(emulated, BuildFailure):
            yield emulated
            return
        for signature, built in zip(signatures, made.build.built, strict=True):
            command = (
                *boot("interpreting", FOLDERS),
                *("{go}", "{done}", "{layout}", "{source}/request.json", f"{{source}}/{SOURCE_NAME}"),
            )
            library = built.program.library
            yield InterpretedPlan(
                (("request.json", self._request(signature, target, emulated)), (SOURCE_NAME, self._source)),
                command,
                (*visible(), CONFINED, *emulated.values()),
                VARIABLES,
                START_SECONDS,
                library=library,
                without_kernels=(*command, "without") if library else (),
            )

    def _request(self, signature: Signature, target: Target, libraries: dict[str, Path]) -> str:
        tensors = signature.tensors
        return json.dumps(
            {
                "device": device_text(target),
                "choices": choices(self._source),
                "call": call_text(module_call(self._source, signature), signature),
                "libraries": {key: str(path) for key, path in libraries.items()},
                "names": [argument.name for argument in signature.arguments],
                "dtypes": [tensor.dtype for tensor in tensors],
                "outputs": [tensor.name for tensor in tensors if tensor.role == "output"],
                "changed": [tensor.name for tensor in tensors if tensor.role == "inout"],
            }
        )

    def advice(self, lines: Sequence[str]) -> tuple[str, ...]:
        return advice_on_torch(lines)


def _emulated(libraries: Sequence[InlineLibrary], target: Target) -> dict[str, Path] | BuildFailure:
    found = {}
    for library in libraries:
        try:
            built = build_as(function_library(library.source, target))
        except CandidateError as error:
            return BuildFailure((f"{SOURCE_NAME}: {error}",))
        if isinstance(built, BuildFailure):
            return built
        found[library.key] = built.library
    return found
