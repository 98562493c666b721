"""Records the calls of a Triton module twice, at different addresses and in opposite orders; checks what comes back."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from kernelwright.contracts.layout import extent_bytes
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.recorded.record import BASES, Bases, Function, Record, RecordRefusal, RecordValue
from kernelwright.contracts.recorded.recorder import GO, RecorderPool, RecorderProgram, read_answer
from kernelwright.contracts.target import Target
from kernelwright.contracts.triton.configurations import choices
from kernelwright.contracts.triton.source import SOURCE_NAME, ModuleCall
from kernelwright.contracts.triton.toolchain.ptxas import capability, ptx_version
from kernelwright.isolation.roles import Role
from kernelwright.isolation.start import interpreter_folders, package_folders
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

CONFINED = Path(__file__).resolve().parent.parent / "confined"
START_SECONDS, CALL_SECONDS, MOST_SECONDS = 60.0, 10.0, 280.0
MEMORY = 6 << 30
ADDRESS_SPACE = 64 << 30  # with the libraries of a PyTorch for GPUs, which are mapped and hardly read
MOST_ANSWER = 64 << 20
MOST_PTX = 8 << 20
VARIABLES = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
BOOT = """
import gc, importlib.util, os, resource, sys
os.environ["TRITON_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.environ["TMPDIR"] + "/triton"
gc.disable()  # a sixth of the time that importing torch takes
resource.setrlimit(resource.RLIMIT_DATA, ({memory}, {memory}))
sys.path[:0] = {paths!r}
for name, folder in {folders!r}:
    spec = importlib.util.spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
    sys.modules[name] = importlib.util.module_from_spec(spec)
from {package} import {entry}
gc.enable()
if {wait!r}:
    open({wait!r}).read(1)
{entry}.main(*sys.argv[1:])
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)  # torch takes most of a second to end
"""


class PtxKernel(RecordValue):
    name: Function
    ptx: Annotated[str, Field(max_length=MOST_PTX)]
    fused: bool


class RegistersNeeded(RecordValue):
    """Host code asked how many registers a kernel takes, which only ptxas knows. `needs` numbers kernels."""

    needs: tuple[Annotated[int, Field(ge=0, lt=1024)], ...] = Field(min_length=1, max_length=64)


class RecorderAnswer(RecordValue):
    kernels: tuple[PtxKernel, ...] = Field(max_length=1024)
    calls: tuple[Record | RecordRefusal | RegistersNeeded, ...]


_ANSWER: TypeAdapter[RecorderAnswer] = TypeAdapter(RecorderAnswer)


@dataclass(frozen=True)
class RecordingRequest:
    """`registers` are those of kernels that host code asked for: registers and spilled words by the hash of the PTX."""

    source: str
    calls: Sequence[ModuleCall]
    signatures: Sequence[Signature]
    target: Target
    registers: Mapping[str, tuple[int, int]]


@cache
def recorder_program() -> RecorderProgram:
    """Imports torch and Triton while it waits for a module."""
    return RecorderProgram(
        lambda folder, output: [
            *boot("recording", wait=f"{folder}/{GO}"),
            *(f"{folder}/request.json", f"{folder}/{SOURCE_NAME}", output),
        ],
        visible=visible(),
        role=Role.torch_recorder,
        waits=True,
        address_space=ADDRESS_SPACE,
        scratch_bytes=512 << 20,
        most_bytes=MOST_ANSWER,
        variables=VARIABLES,
    )


def record_twice(request: RecordingRequest, pool: RecorderPool) -> tuple[RecorderAnswer, RecorderAnswer] | BuildFailure:
    """Answers for both bases, their calls in the order of the request."""
    with ThreadPoolExecutor(2) as threads:
        jobs = [threads.submit(_record, request, bases, bool(n), pool) for n, bases in enumerate(BASES)]
        first, second = (job.result() for job in jobs)
    if isinstance(first, BuildFailure):
        return first
    return second if isinstance(second, BuildFailure) else (first, second)


OURS = (("kw_confined", str(CONFINED)),)


def boot(entry: str, folders: tuple[tuple[str, str], ...] = OURS, wait: str = "") -> list[str]:
    """The command line of one of our scripts in the sandbox, without its arguments. It is in the last of the packages,
    which are given by name and folder. What the script needs is imported before a byte comes from the pipe `wait`."""
    text = BOOT.format(
        memory=MEMORY, paths=list(package_folders()), folders=folders, package=folders[-1][0], entry=entry, wait=wait
    )
    return [str(Path(sys.executable).resolve()), "-I", "-S", "-B", "-c", text]


def visible() -> tuple[str | Path, ...]:
    return (*interpreter_folders(), *package_folders(), CONFINED)


def _record(
    request: RecordingRequest, bases: Bases, backwards: bool, pool: RecorderPool
) -> RecorderAnswer | BuildFailure:
    calls = [call_text(*pair) for pair in zip(request.calls, request.signatures, strict=True)]
    told = {
        "device": device_text(request.target),
        "ptx_version": ptx_version(request.target),
        "registers": dict(request.registers),
        "choices": choices(request.source),
        "base": {"start": bases.start, "gap": bases.gap},
        "calls": calls[::-1] if backwards else calls,
    }
    files = {"request.json": json.dumps(told), SOURCE_NAME: request.source}
    content = pool.record(files, SOURCE_NAME, min(MOST_SECONDS, START_SECONDS + CALL_SECONDS * len(calls)))
    if isinstance(content, BuildFailure):
        return content
    answer = read_answer(content, _ANSWER, SOURCE_NAME)
    if isinstance(answer, BuildFailure):
        return answer
    if len(answer.calls) != len(calls):
        return BuildFailure((f"{SOURCE_NAME}: the record has {len(answer.calls)} calls of {len(calls)}",))
    return answer.model_copy(update={"calls": answer.calls[::-1]}) if backwards else answer


def device_text(target: Target) -> dict[str, int]:
    return {
        "capability": capability(target),
        "multiprocessors": target.multiprocessors,
        "shared": target.shared_per_block,
        "l2": target.l2_bytes,
    }


def call_text(call: ModuleCall, signature: Signature) -> dict[str, Any]:
    """One call as the scripts in the sandbox read it: tensors and numbers by name, and which parameters take them."""
    arguments = signature.arguments
    tensors = [tensor for tensor in signature.tensors if tensor.role != "output"]
    return {
        "function": call.plan.function,
        "context": call.context,
        "gradients": [arguments[n].name for n in call.gradients],
        "wanted": list(call.wanted),
        "values": [_value(value, signature) for value in call.plan.values],
        "numbers": {one.name: one.value for one in arguments if isinstance(one, ScalarSpec)},
        "tensors": [_tensor(tensor) for tensor in tensors],
    }


def _tensor(tensor: TensorSpec) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "strides": list(tensor.strides),
        "bytes": extent_bytes(tensor),
        "kind": "inout" if tensor.role == "inout" else "input",
    }


def _value(value: int | tuple[int, ...] | None, signature: Signature) -> Any:
    if isinstance(value, tuple):
        return [_value(one, signature) for one in value]
    return None if value is None else {"name": signature.arguments[value].name}
