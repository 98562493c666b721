"""One Triton module for the check without a GPU: what the recorder says of it, and a process that interprets it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.model import BuildFailure, InterpretedPlan
from kernelwright.contracts.target import Target
from kernelwright.contracts.triton.configurations import choices
from kernelwright.contracts.triton.source import SOURCE_NAME, check, module_call
from kernelwright.contracts.triton.toolchain.build import TritonToolchain
from kernelwright.contracts.triton.toolchain.record import VARIABLES, boot, call_text, device_text, visible
from kernelwright.devices import lock
from kernelwright.tasks.model import Signature

START_SECONDS = 60.0


class TritonEmulation:
    def __init__(self, source: str) -> None:
        check(source)
        self._source = source

    def builds(
        self, signatures: tuple[Signature, ...], target: Target, *, sanitized: bool
    ) -> Iterator[InterpretedPlan | BuildFailure]:
        """The module is compiled and recorded first: the interpreter takes much that the compiler refuses."""
        with lock.working():
            made = TritonToolchain(target).build(Candidate("triton", self._source), signatures)
        if isinstance(made, BuildFailure):
            yield made
            return
        for signature in signatures:
            yield InterpretedPlan(
                (("request.json", self._request(signature, target)), (SOURCE_NAME, self._source)),
                (
                    *boot("interpreting"),
                    "{go}",
                    "{done}",
                    "{layout}",
                    "{source}/request.json",
                    f"{{source}}/{SOURCE_NAME}",
                ),
                visible(),
                VARIABLES,
                START_SECONDS,
            )

    def _request(self, signature: Signature, target: Target) -> str:
        tensors = signature.tensors
        return json.dumps(
            {
                "device": device_text(target),
                "choices": choices(self._source),
                "call": call_text(module_call(self._source, signature), signature),
                "names": [argument.name for argument in signature.arguments],
                "dtypes": [tensor.dtype for tensor in tensors],
                "outputs": [tensor.name for tensor in tensors if tensor.role == "output"],
                "changed": [tensor.name for tensor in tensors if tensor.role == "inout"],
            }
        )

    def advice(self, lines: Sequence[str]) -> tuple[str, ...]:
        return ()
