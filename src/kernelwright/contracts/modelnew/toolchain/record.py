"""Runs the recorder of a ModelNew in the sandbox: to find its libraries, and then twice at different addresses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from kernelwright.contracts.cuda.toolkit import include_directories
from kernelwright.contracts.extension.toolchain.nvcc import BuiltLibrary
from kernelwright.contracts.extension.toolchain.record import RECORDER
from kernelwright.contracts.layout import extent_bytes
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.modelnew.libraries import MOST_LIBRARIES, InlineLibrary
from kernelwright.contracts.modelnew.source import SOURCE_NAME, ModelNewCall
from kernelwright.contracts.recorded.record import BASES, Bases
from kernelwright.contracts.recorded.recorder import GO, RecorderPool, RecorderProgram, read_answer
from kernelwright.contracts.target import Target
from kernelwright.contracts.triton.configurations import choices
from kernelwright.contracts.triton.toolchain.ptxas import ptx_version
from kernelwright.contracts.triton.toolchain.record import (
    CALL_SECONDS,
    MOST_ANSWER,
    MOST_SECONDS,
    OURS,
    START_SECONDS,
    VARIABLES,
    PtxKernel,
    RecorderAnswer,
    boot,
    device_text,
    visible,
)
from kernelwright.devices.compiler import compiled
from kernelwright.isolation.roles import Role
from kernelwright.tasks.model import ScalarSpec, Signature

CONFINED = Path(__file__).resolve().parent.parent / "confined"
FOLDERS = (*OURS, ("kw_modelnew", str(CONFINED)))
ADDRESS_SPACE = 3 << 40  # reserved for stand-ins, and never backed by memory
FIRST_LIBRARY = 512  # modules from here on are libraries, those below are Triton's kernels


class ModelNewAnswer(RecorderAnswer):
    """`libraries` are those that were called, in the order of their modules; `wanted` is still to be built."""

    kernels: tuple[PtxKernel, ...] = Field(max_length=FIRST_LIBRARY)
    libraries: tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")], ...] = Field(max_length=MOST_LIBRARIES)
    wanted: tuple[InlineLibrary, ...] = Field(max_length=MOST_LIBRARIES)


_ANSWER: TypeAdapter[ModelNewAnswer] = TypeAdapter(ModelNewAnswer)


@dataclass(frozen=True)
class ModelNewRequest:
    """`built` are the libraries that are built already, by their keys."""

    source: str
    calls: Sequence[ModelNewCall]
    signatures: Sequence[Signature]
    target: Target
    registers: Mapping[str, tuple[int, int]]
    built: Mapping[str, BuiltLibrary]


@cache
def embedded_recorder() -> Path:
    headers = tuple(f"-I{path}" for path in include_directories()[:1])
    return compiled(RECORDER, "recorder.so", ("-O1", "-shared", "-fPIC", "-DKW_EMBEDDED", *headers, "-ldl"))


@cache
def recorder_program() -> RecorderProgram:
    """Imports torch and Triton while it waits for a module."""

    def command(folder: str, output: str) -> list[str]:
        script = boot("recording", FOLDERS, wait=f"{folder}/{GO}")
        return [*script, f"{folder}/request.json", f"{folder}/{SOURCE_NAME}", output, folder]

    return RecorderProgram(
        command,
        visible=(*visible(), CONFINED, embedded_recorder()),
        role=Role.torch_recorder,
        waits=True,
        address_space=ADDRESS_SPACE,
        scratch_bytes=512 << 20,
        most_bytes=MOST_ANSWER,
        variables=VARIABLES,
    )


def record_once(request: ModelNewRequest, pool: RecorderPool) -> tuple[ModelNewAnswer, ...] | BuildFailure:
    """To find out what it builds."""
    found = _record(request, BASES[0], pool, backwards=False)
    return found if isinstance(found, BuildFailure) else (found,)


def record_twice(request: ModelNewRequest, pool: RecorderPool) -> tuple[ModelNewAnswer, ...] | BuildFailure:
    """Answers for both bases, their calls in the order of the request."""
    with ThreadPoolExecutor(2) as threads:
        jobs = [threads.submit(_record, request, bases, pool, backwards=bool(n)) for n, bases in enumerate(BASES)]
        first, second = (job.result() for job in jobs)
    if isinstance(first, BuildFailure):
        return first
    return second if isinstance(second, BuildFailure) else (first, second)


def _record(
    request: ModelNewRequest, bases: Bases, pool: RecorderPool, *, backwards: bool
) -> ModelNewAnswer | BuildFailure:
    calls = [call_text(*pair) for pair in zip(request.calls, request.signatures, strict=True)]
    told = {
        "device": device_text(request.target),
        "ptx_version": ptx_version(request.target),
        "registers": dict(request.registers),
        "choices": choices(request.source),
        "base": {"start": bases.start, "gap": bases.gap},
        "recorder": str(embedded_recorder()),
        "libraries": sorted(request.built),
        "calls": calls[::-1] if backwards else calls,
    }
    files: dict[str, str | bytes] = {"request.json": json.dumps(told), SOURCE_NAME: request.source}
    files |= {f"{key}.so": library.library for key, library in request.built.items()}
    content = pool.record(files, SOURCE_NAME, min(MOST_SECONDS, START_SECONDS + CALL_SECONDS * len(calls)))
    if isinstance(content, BuildFailure):
        return content
    answer = read_answer(content, _ANSWER, SOURCE_NAME)
    if isinstance(answer, BuildFailure):
        return answer
    if len(answer.calls) != len(calls):
        return BuildFailure((f"{SOURCE_NAME}: the record has {len(answer.calls)} calls of {len(calls)}",))
    return answer.model_copy(update={"calls": answer.calls[::-1]}) if backwards else answer


def call_text(call: ModelNewCall, signature: Signature) -> dict[str, Any]:
    """One call as the scripts in the sandbox read it."""
    tensors = {tensor.name: tensor for tensor in signature.tensors if tensor.role != "output"}
    return {
        "initial": call.initial,
        "given": list(call.given),
        "fixed": [list(one) for one in call.fixed],
        "held": [
            {
                "argument": name,
                "path": path,
                "dtype": tensors[name].dtype,
                "shape": list(tensors[name].shape),
            }
            for name, path in call.held
        ],
        "numbers": {one.name: one.value for one in signature.arguments if isinstance(one, ScalarSpec)},
        "tensors": [
            {
                "name": tensor.name,
                "dtype": tensor.dtype,
                "shape": list(tensor.shape),
                "strides": list(tensor.strides),
                "bytes": extent_bytes(tensor),
                "kind": "inout" if tensor.role == "inout" else "input",
            }
            for tensor in tensors.values()
        ],
    }
