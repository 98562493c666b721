"""Names of arguments as generated code may use them: a tensor of a task may be called `new`, `positive` or `load`.

Kernels are called by position, so that a parameter may have another name than the task's argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from kernelwright.proposers.templates.graph import ArgumentNode, Graph
from kernelwright.tasks.model import Signature

_OF_THE_LANGUAGE = """
alignas alignof and_eq asm auto bitand bitor bool case catch char char8_t char16_t char32_t class compl concept const
consteval constexpr constinit const_cast co_await co_return co_yield decltype default delete do double dynamic_cast enum
explicit export extern false float friend goto inline int long mutable namespace new noexcept not_eq nullptr operator
or_eq private protected public register reinterpret_cast requires restrict short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true typedef typeid typename union unsigned using virtual
void volatile wchar_t xor xor_eq std main
"""
_OF_GENERATED_CODE = "kw plan V I T"  # beside what the preludes define in plain sight
PRELUDES = (Path(__file__).parent / "cpp" / "prelude.py", Path(__file__).parent / "cuda" / "prelude.py")
_DEFINED = re.compile(
    r"^(?:__device__ )?(?:static )?inline [^(=;]*?\b(\w+)(?:<[^>()]*>)?\("
    r"|^(?:struct|enum) (?:\w+\(\w+\) )?(\w+)|^(?:static )?constexpr \w+ (\w+)|^using (\w+) =",
    re.MULTILINE,
)


@cache
def reserved() -> frozenset[str]:
    """What C++ reserves, and what the preludes of generated code define."""
    texts = (path.read_text(encoding="utf-8") for path in PRELUDES)
    known = {*_OF_THE_LANGUAGE.split(), *_OF_GENERATED_CODE.split()}
    return frozenset(known | {name for text in texts for found in _DEFINED.findall(text) for name in found if name})


def other_names(names: Sequence[str]) -> dict[str, str]:
    """The names that have to change, each with another that is free."""
    taken = {*names, *reserved()}
    found = {}
    for name in names:
        if name in reserved():
            other = f"{name}_"
            while other in taken:
                other += "_"
            taken.add(other)
            found[name] = other
    return found


def renamed_graph(graph: Graph, others: Mapping[str, str]) -> Graph:
    if not others:
        return graph
    return replace(
        graph,
        nodes=tuple(
            replace(node, name=others.get(node.name, node.name)) if isinstance(node, ArgumentNode) else node
            for node in graph.nodes
        ),
        results=tuple(replace(one, name=others.get(one.name, one.name)) for one in graph.results),
        tensors=tuple(replace(one, name=others.get(one.name, one.name)) for one in graph.tensors),
        scalars=tuple(others.get(name, name) for name in graph.scalars),
    )


def renamed_signature(signature: Signature, others: Mapping[str, str]) -> Signature:
    if not others:
        return signature
    arguments = tuple(replace(one, name=others.get(one.name, one.name)) for one in signature.arguments)
    return replace(signature, arguments=arguments)
