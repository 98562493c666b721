"""Records one call of an extension's host code, twice at different addresses, and makes a program of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from kernelwright.contracts.candidate import CandidateError
from kernelwright.contracts.cuda.toolkit import include_directories
from kernelwright.contracts.extension.source import call_plan
from kernelwright.contracts.extension.toolchain.nvcc import SOURCE_NAME, BuiltLibrary
from kernelwright.contracts.extension.values import DTYPE_NUMBERS
from kernelwright.contracts.layout import extent_bytes
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.program import Program
from kernelwright.contracts.recorded.calls import CallPlan
from kernelwright.contracts.recorded.convert import to_program
from kernelwright.contracts.recorded.pointers import CannotReplay
from kernelwright.contracts.recorded.record import BASES, Bases, Record, RecordRefusal, with_scalars
from kernelwright.contracts.recorded.recorder import RecorderProcess, RecorderProgram, read_answer
from kernelwright.contracts.target import Target
from kernelwright.devices.compiler import compiled
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

SECONDS = 20.0
ADDRESS_SPACE = 3 << 40  # reserved, and never backed by memory
RECORDER = Path(__file__).parent.parent / "recorder" / "recorder.cpp"
_ANSWER: TypeAdapter[Record | RecordRefusal] = TypeAdapter(Record | RecordRefusal)


@cache
def recorder_program() -> Path:
    headers = tuple(f"-I{path}" for path in include_directories()[:1])
    return compiled(RECORDER, "recorder", ("-O1", "-rdynamic", *headers, "-ldl"))


def record_program(source: str, built: BuiltLibrary, signature: Signature, target: Target) -> Program | BuildFailure:
    """The program of one workload, or why its host code cannot be recorded."""
    try:
        call = _call_text(call_plan(source, signature), signature, target)
    except CandidateError as error:
        return BuildFailure((f"{SOURCE_NAME}: {error}",))
    records = []
    for bases in BASES:
        record = _record(built.library, call, bases)
        if isinstance(record, BuildFailure):
            return record
        records.append(with_scalars(record, signature))
    try:
        return to_program(records[0], records[1], signature, (built.cubin,))
    except CannotReplay as error:
        return BuildFailure((f"{SOURCE_NAME}: {error}",))


def _record(library: bytes, call: str, bases: Bases) -> Record | BuildFailure:
    program = recorder_program()

    def command(folder: str, output: str) -> list[str]:
        return [str(program), f"{folder}/library.so", f"{folder}/call", output, str(bases.start), str(bases.gap)]

    recorder = RecorderProgram(command, visible=(program,), address_space=ADDRESS_SPACE)
    content = RecorderProcess(recorder, {"library.so": library, "call": call}).record({}, SOURCE_NAME, SECONDS)
    if isinstance(content, BuildFailure):
        return content
    answer = read_answer(content, _ANSWER, SOURCE_NAME)
    return BuildFailure((f"{SOURCE_NAME}: {answer.refused}",)) if isinstance(answer, RecordRefusal) else answer


# --- the call, as the recorder reads it ------------------------------------------------------------------------------


def _call_text(plan: CallPlan, signature: Signature, target: Target) -> str:
    """Words: the device, the tensors in the order of the signature, the function and its values."""
    if any(isinstance(signature.arguments[n], TensorSpec) and _is_output(signature, n) for n in _numbers(plan)):
        raise CandidateError(f"{plan.function} takes its outputs as parameters: return them")
    capability = "".join(filter(str.isdigit, target.architecture))
    device = f"{target.multiprocessors} {target.shared_per_block} {target.l2_bytes} {capability}"
    tensors = [tensor for tensor in signature.tensors if tensor.role != "output"]
    lines = [device, str(len(tensors))]
    lines += [f"{t.name} {'inout' if t.role == 'inout' else 'input'} {extent_bytes(t)}" for t in tensors]
    lines.append(f"{plan.function} {len(plan.values)}")
    places = {tensor.name: place for place, tensor in enumerate(tensors)}
    lines += [_value_text(value, signature, places) for value in plan.values]
    return "\n".join(lines) + "\n"


def _numbers(plan: CallPlan) -> list[int]:
    return [n for value in plan.values if value is not None for n in (value if isinstance(value, tuple) else (value,))]


def _is_output(signature: Signature, number: int) -> bool:
    argument = signature.arguments[number]
    return isinstance(argument, TensorSpec) and argument.role == "output"


def _value_text(value: int | tuple[int, ...] | None, signature: Signature, places: dict[str, int]) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return " ".join([f"list {len(value)}", *(_value_text(one, signature, places) for one in value)])
    argument = signature.arguments[value]
    if isinstance(argument, ScalarSpec):
        if isinstance(argument.value, bool):
            return f"bool {int(argument.value)}"
        return f"real {argument.value!r}" if isinstance(argument.value, float) else f"integer {argument.value}"
    sizes = " ".join(map(str, (*argument.shape, *argument.strides)))
    return f"tensor {places[argument.name]} {DTYPE_NUMBERS[argument.dtype]} {len(argument.shape)} {sizes}"
