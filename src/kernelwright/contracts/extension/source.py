"""The text of an `extension` candidate: its headers, the functions that it binds, and what they are called with.

Nothing here is run. A .py file with `load_inline` gives its strings, which are joined to the .cu file that
torch.utils.cpp_extension would have built.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from kernelwright.contracts.candidate import CandidateError
from kernelwright.contracts.cuda.emulate.refuse import without_comments
from kernelwright.contracts.recorded.calls import (
    BoundFunction,
    BoundParameter,
    CallPlan,
    Kind,
    plan_call,
    upstream_gradients,
)
from kernelwright.tasks.model import Signature

OUR_HEADER = "extension.h"
_INCLUDE = re.compile(r"^([ \t]*#[ \t]*include[ \t]*)[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
_TORCH = ("torch/", "ATen/", "c10/", "pybind11/")
_LIBRARIES = ("cublas", "cudnn", "cusparse", "cusolver", "cufft", "curand.h", "nccl")  # often included, rarely called
_MODULE = re.compile(r"\bPYBIND11_MODULE\s*\(")
_DEFINITION = re.compile(r"\b\w+\s*\.\s*def\s*\(\s*\"(\w{1,99})\"\s*,")


def is_extension(source: str) -> bool:
    return _MODULE.search(source) is not None


def check(source: str) -> None:
    text = without_comments(source)
    if not is_extension(text):
        raise CandidateError(
            "the source has no PYBIND11_MODULE: bind forward with PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) "
            '{ m.def("forward", &forward); }'
        )
    for _, header in _INCLUDE.findall(text):
        if header.startswith("thrust/"):
            raise CandidateError(f"includes {header}: library calls do not exist in this contract; write the kernel")
    if not bound_functions(source):
        raise CandidateError('PYBIND11_MODULE defines no function: write m.def("forward", &forward)')


def with_own_headers(source: str) -> str:
    """Torch's headers, all of them, are ours, and those of libraries too: a call of a library then does not compile.
    Line by line what the author wrote."""
    return _INCLUDE.sub(_own_header, source)


def _own_header(found: re.Match[str]) -> str:
    return f'{found[1]}"{OUR_HEADER}"' if found[2].startswith((*_TORCH, *_LIBRARIES)) else found[0]


def bound_functions(source: str) -> tuple[BoundFunction, ...]:
    """What `m.def` names, with the parameters as they are declared."""
    text = without_comments(source)
    module = _MODULE.search(text)
    if module is None:
        return ()
    found = []
    for definition in _DEFINITION.finditer(text, module.end()):
        target = text[definition.end() :].lstrip(" \t\n&")
        made = _lambda(definition[1], target) if target.startswith("[") else _plain(definition[1], target, text)
        if made is not None:
            found.append(made)
    return tuple(found)


def _plain(name: str, target: str, text: str) -> BoundFunction | None:
    named = re.match(r"[\w:]+", target)
    if named is None:
        return None
    function = named[0].rsplit(":", 1)[-1]
    for found in re.finditer(rf"([\w:>,&* ]*?)\s*\b{function}\s*\(", text):
        inside, end = _parenthesised(text, found.end() - 1)
        if re.match(r"\s*(?:noexcept\s*)?[{;]", text[end:]) and not re.search(r"\breturn\s*$|=\s*$", found[1]):
            return BoundFunction(name, _parameters(inside), not re.search(r"\bvoid\s*$", found[1]))
    return None


def _lambda(name: str, target: str) -> BoundFunction | None:
    start = target.find("(")
    if start < 0:
        return None
    inside, _ = _parenthesised(target, start)
    return BoundFunction(name, _parameters(inside), returns=True)


def _parenthesised(text: str, start: int) -> tuple[str, int]:
    """What stands between the parenthesis at `start` and its partner, and where that has ended."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1 : at], at + 1
    return text[start + 1 :], len(text)


def split_commas(text: str) -> list[str]:
    parts, depth, last = [], 0, 0
    for at, sign in enumerate(text):
        depth += {"(": 1, "<": 1, "{": 1, "[": 1, ")": -1, ">": -1, "}": -1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append(text[last:at])
            last = at + 1
    parts.append(text[last:])
    return [part.strip() for part in parts if part.strip() and part.strip() != "void"]


def _parameters(text: str) -> tuple[BoundParameter, ...]:
    found = []
    for part in split_commas(text):
        declared, _, default = part.partition("=")
        name = re.search(r"(\w+)\s*$", declared)
        many = re.search(
            r"\bvector\s*<\s*(?:\w+::)*Tensor|TensorList|py::(?:tuple|list)|pybind11::(?:tuple|list)", part
        )
        kind: Kind = "tensors" if many else "tensor" if "Tensor" in declared else "number"
        optional = "optional" in declared or bool(default)
        found.append(BoundParameter(name[1] if name else "", kind, optional))
    return tuple(found)


def call_plan(source: str, signature: Signature) -> CallPlan:
    """Chooses the function and its arguments; docs/extension.md has the rules. Raises CandidateError."""
    functions = {one.name: one for one in bound_functions(source)}
    wanted = "backward" if upstream_gradients(signature) else "forward"
    function = functions.get(wanted)
    if function is None and len(functions) == 1:
        (function,) = functions.values()
    if function is None:
        raise CandidateError(f"PYBIND11_MODULE has no function {wanted!r}: it has {', '.join(functions) or 'none'}")
    return plan_call(function, signature)


# --- load_inline -----------------------------------------------------------------------------------------------------


def is_inline(text: str) -> bool:
    """Whether a Python file is only there for its strings: it calls load_inline, and has no module that uses it."""
    return not re.search(r"^\s*class\s+ModelNew\b", text, re.MULTILINE) and inline_source(text) is not None


def inline_source(text: str) -> str | None:
    """The .cu file of a Python file's one call of load_inline, or None where it has none. Raises CandidateError."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node.func) == "load_inline"]
    if not calls:
        return None
    if len(calls) > 1:
        raise CandidateError(f"calls load_inline {len(calls)} times: put all kernels into one call")
    return extension_source(*_told(calls[0], _strings(tree)))


def written_calls(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """CUDA, C++ and functions of the calls of load_inline whose arguments are plain strings."""
    tree, found = ast.parse(text), []
    strings = _strings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node.func) == "load_inline":
            with suppress(CandidateError):
                found.append(_told(node, strings))
    return found


def _told(call: ast.Call, strings: Mapping[str, str]) -> tuple[str, str, tuple[str, ...]]:
    in_order = dict(zip(("name", "cpp_sources", "cuda_sources", "functions"), call.args, strict=False))
    given = {**in_order, **{keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}}
    cuda, host = (_joined(given.get(name), strings) for name in ("cuda_sources", "cpp_sources"))
    return cuda, host, _functions(given.get("functions"), strings)


def extension_source(cuda: str, host: str, functions: Sequence[str]) -> str:
    """The .cu file that load_inline would have built of its strings. Raises CandidateError."""
    head = "#include <torch/extension.h>\n#include <cuda_runtime.h>\n"
    if is_extension(cuda + host):
        return f"{head}{host}\n{cuda}\n"
    if not functions:
        raise CandidateError("load_inline names no functions: give functions=[...] as strings")
    lines = "".join(f'  m.def("{name}", &{name});\n' for name in functions)
    return f"{head}{host}\n{cuda}\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{lines}}}\n"


def _called(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _strings(tree: ast.Module) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found |= {target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)}
    return found


def _joined(node: ast.expr | None, strings: Mapping[str, str]) -> str:
    if node is None:
        return ""
    if isinstance(node, ast.List | ast.Tuple):
        return "\n".join(_joined(one, strings) for one in node.elts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined(node.left, strings) + _joined(node.right, strings)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name) and node.id in strings:
        return strings[node.id]
    raise CandidateError(f"line {node.lineno}: a source of load_inline is not a plain string: write it as one")


def _functions(node: ast.expr | None, strings: Mapping[str, str]) -> tuple[str, ...]:
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else [] if node is None else [node]
    names = [_joined(item, strings) for item in items]
    if isinstance(node, ast.Dict):
        names = [_joined(key, strings) for key in node.keys if key is not None]
    bad = [name for name in names if not re.fullmatch(r"[A-Za-z_]\w{0,99}", name)]
    if bad:
        raise CandidateError("load_inline: functions has a name that is not an identifier")
    return tuple(names)
