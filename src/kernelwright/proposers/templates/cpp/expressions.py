"""Pointwise operations as C++: the same text for a vector and for a single float."""

from __future__ import annotations

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "logical_and": "&", "logical_or": "|"}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_CALLED = {
    "exp": "exponential",
    "log": "logarithm",
    "sqrt": "root",
    "abs": "absolute",
    "relu": "positive",
    "tanh": "hyperbolic",
    "erf": "error_function",
    "maximum": "most",
    "minimum": "least",
    "pow": "power",
    "sign": "signum",
    "log1p": "log_one_plus",
    "expm1": "exp_minus_one",
    "sin": "sine",
    "cos": "cosine",
    "floor": "floored",
    "round": "nearest_whole",
    "trunc": "whole_part",
    "logical_not": "no",
    "where": "pick",
}
_SPELLED = {
    "neg": "-{0}",
    "rsqrt": "1.0f / root({0})",
    "reciprocal": "1.0f / {0}",
    "sigmoid": "1.0f / (1.0f + exponential(-{0}))",
    "repeat": "{0}",
}
COSTLY = frozenset(("exp", "log", "tanh", "erf", "pow", "sigmoid", "log1p", "expm1", "sin", "cos"))


def expression(operation: str, operands: list[str], source: str, target: str, *, vector: bool) -> str:
    """`source` and `target` are the dtypes of the first operand and of the result."""
    if operation in INFIX:
        return f"{operands[0]} {INFIX[operation]} {operands[1]}"
    if operation in _COMPARED:
        return f"{operands[0]} {_COMPARED[operation]} {operands[1]}"
    if operation in _CALLED:
        return f"{_CALLED[operation]}({', '.join(operands)})"
    if operation in _SPELLED:
        return _SPELLED[operation].format(*operands)
    assert operation == "convert", operation
    return _converted(operands[0], source, target, vector=vector)


def _converted(operand: str, source: str, target: str, *, vector: bool) -> str:
    if target == "bool":
        return f"{operand} != 0"
    if not vector:
        return f"static_cast<{scalar_type(target)}>({operand})"
    return f"pick({operand}, wide(1.0f), V{{}})" if source == "bool" else operand


def scalar_type(dtype: str) -> str:
    return {"float32": "float", "int64": "int64_t", "bool": "bool"}[dtype]


def vector_type(dtype: str) -> str:
    return "V" if dtype == "float32" else "I"
