"""What a call of an imported graph may give an operator, by the operator's own schema.

torch is lenient where a schema is strict: a device or a dtype may be text or a number, an `out` is made to fit, and a
number that should be a size may be a text to repeat. So every argument is held against its declared type.
"""

from __future__ import annotations

from typing import Any

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.imported.traced import (
    DtypeValue,
    ListValue,
    MemoryFormat,
    NodeValue,
    OperatorCall,
    SameDevice,
    TextValue,
    Value,
)

# By what the schema's type contains: the only values for it, beside None. Everything else is tensors and numbers.
SPECIAL: dict[str, tuple[type, ...]] = {
    "ScalarType": (DtypeValue,),
    "MemoryFormat": (MemoryFormat,),
    "Device": (SameDevice,),
    "Layout": (),
    "str": (TextValue,),
}
NUMBERS_ONLY = (TextValue, DtypeValue, MemoryFormat, SameDevice)
STATISTICS = {"batch_norm": "training", "instance_norm": "use_input_stats"}
MODES = {"interpolation_mode": (0, 1, 2), "padding_mode": (0, 1, 2)}  # others leave the result unwritten


def require_fitting(call: OperatorCall, schema: Any) -> None:
    """TaskError where a value is not of its argument's type, or where more is written to than the first argument."""
    name = call.op.split(".")[1]
    declared = schema.arguments
    known = {argument.name for argument in declared}
    if len(call.args) > len(declared) or not set(call.kwargs) <= known:
        raise TaskError(f"it gives {call.op} arguments that it does not have")
    given = dict(zip((argument.name for argument in declared), call.args, strict=False)) | dict(call.kwargs)
    for place, argument in enumerate(declared):
        written = argument.alias_info is not None and argument.alias_info.is_write
        if written and not (place == 0 and name.endswith("_")):
            raise TaskError(f"it uses {call.op}, which writes to the argument {argument.name!r}")
        if argument.name in given and not _fits(argument, given[argument.name]):
            raise TaskError(f"it gives {call.op} a value for {argument.name!r} that is not of its type")
    statistics = STATISTICS.get(name)
    if statistics and given.get(statistics) is not False and given.get("running_mean", None) is not None:
        raise TaskError(f"it uses {call.op} with running statistics, which would change an argument")


def _fits(argument: Any, value: Value) -> bool:
    kind = str(argument.real_type)
    if value is None:
        return True
    if argument.name == "pin_memory":
        return value is False
    if argument.name in MODES and kind == "int":
        return value in MODES[argument.name] and type(value) is int
    for part, types in SPECIAL.items():
        if part in kind:
            return isinstance(value, types)
    return not _holds_special(value)


def _holds_special(value: Value) -> bool:
    if isinstance(value, ListValue):
        return any(map(_holds_special, value.items))
    return isinstance(value, NUMBERS_ONLY)


def require_numbers(call: OperatorCall) -> None:
    """For arithmetic on sizes: of numbers and of what earlier nodes gave, which `operators` looks at when it runs."""
    listed = call.op in ("sym.sym_sum", "sym.getitem")
    for value in (*call.args, *call.kwargs.values()):
        plain = isinstance(value, NodeValue | bool | int | float) or (listed and isinstance(value, ListValue))
        if not plain or _holds_special(value):
            raise TaskError(f"it gives {call.op} something other than numbers")
