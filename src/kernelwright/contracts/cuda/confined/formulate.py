"""Calls a candidate's plan(...) with sizes that are not known, once for each path through its choices.

    formulate.py REQUEST OUTPUT GO

REQUEST is JSON: the device, the sizes with their ranges, and the arguments, whose shapes are expressions over sizes.
OUTPUT becomes a launch formula (contracts/portable/formula.py), as JSON. A byte from the pipe GO says that REQUEST and
plan.py lie in the script's folder.
"""

from __future__ import annotations

import builtins
import json
import math
import sys
import traceback
from pathlib import Path
from typing import Any

PLAN = "plan.py"
MOST_PATHS = 1000
OPTIONS = ("fast_math", "max_registers")


def expression(symbols: Any, raw: Any) -> Any:
    """A nested list such as ["floordiv", ["sub", "height", 2], 2]."""
    if isinstance(raw, str):
        at = symbols.path.node(raw)
        low, high = symbols.path.bounds[at]
        return low if low == high else symbols.Symbol(at, "int")
    if isinstance(raw, list):
        operation, *operands = raw
        given = [expression(symbols, operand) for operand in operands]
        if any(isinstance(one, symbols.Symbol) for one in given):
            return symbols.apply(operation, *given)
        return PLAIN[operation](*given)
    return raw


PLAIN = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
}


def stand_in(kw: Any, symbols: Any, raw: dict[str, Any]) -> Any:
    if "value" in raw:
        return raw["value"]
    shape = tuple(expression(symbols, size) for size in raw["shape"])
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return kw.Tensor(raw["name"], raw["dtype"], shape, tuple(strides[: len(shape)]))


def as_data(symbols: Any, value: Any) -> Any:
    if isinstance(value, symbols.Symbol):
        low, high = symbols.path.bounds[value.at]
        if low == high and value.kind != "real":
            return bool(low) if value.kind == "bool" else int(low)
        return {"node": value.at}
    if isinstance(value, dict):
        return {key: as_data(symbols, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_data(symbols, part) for part in value]
    return value


class Tree:
    """The choices of all paths: a node with two sides, or at the end of a path its case."""

    def __init__(self) -> None:
        self.root: list[Any] = []  # a list is a place: empty, [case] or [node, if true, if false]
        self.cases: dict[str, int] = {}

    def put(self, chosen: list[tuple[int, bool]], case: Any) -> None:
        place = self.root
        for node, truth in chosen:
            if not place:
                place += [node, [], []]
            place = place[1 if truth else 2]
        text = None if case is None else json.dumps(case, sort_keys=True, allow_nan=False)
        place.append(None if text is None else self.cases.setdefault(text, len(self.cases)))

    def written(self) -> list[list[Any]]:
        """Branches in order, the root first; a choice that changes nothing is left out."""
        branches: list[list[Any]] = []
        merged = self._merged()
        left: list[tuple[list[Any], list[Any] | None, int]] = [(merged, None, 0)]
        while left:
            place, branch, side = left.pop()
            target = self._target(place, branches)
            if branch is not None:
                branch[side] = target
            if len(place) == 3:
                left += [(place[2], branches[-1], 2), (place[1], branches[-1], 1)]
        return branches

    @staticmethod
    def _target(place: list[Any], branches: list[list[Any]]) -> int | None:
        if len(place) == 1:
            return None if place[0] is None else -1 - int(place[0])
        branches.append([place[0], None, None])
        return len(branches) - 1

    def _merged(self) -> list[Any]:
        order, left = [], [self.root]
        while left:
            place = left.pop()
            order.append(place)
            left += place[1:] if len(place) == 3 else []
        for place in reversed(order):
            if len(place) == 3 and len(place[1]) == len(place[2]) == 1 and place[1] == place[2]:
                place[:] = [place[1][0]]
        return self.root


def formulate(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    sys.path.insert(0, str(folder))
    import evaluate  # type: ignore[import-not-found]  # the copies beside the plan
    import kw  # type: ignore[import-not-found]
    import symbols  # type: ignore[import-not-found]

    kw.device = kw.Device(**request["device"])
    for name, stand in symbols.REPLACED.items():
        setattr(kw, name, stand)
    for name, function in symbols.MATH.items():
        setattr(math, name, function)
    code = compile((folder / PLAN).read_text(encoding="utf-8"), PLAN, "exec")
    ranges = {name: (least, most) for name, least, most in request["sizes"]}
    nodes: list[Any] = []
    numbers: dict[Any, int] = {}
    pending: list[list[Any]] = [[]]
    tree, paths, why = Tree(), 0, ""
    while pending:
        paths += 1
        if paths > MOST_PATHS:
            raise symbols.Inexpressible(f"plan.py: the sizes lead to more than {MOST_PATHS} cases")
        prefix = pending.pop()
        path = symbols.path = symbols.Path(nodes, numbers, ranges, prefix)
        try:
            case = one_case(evaluate, kw, symbols, code, request["arguments"])
        except Exception as error:  # sizes at which the plan fails are not covered
            case, why = None, why or said(error)
        if path.refusal:
            raise symbols.Inexpressible(path.refusal)
        chosen = path.chosen
        tree.put(chosen, case)
        pending += [[*chosen[:at], (chosen[at][0], False)] for at in range(len(prefix), len(chosen))]
    if not tree.cases:
        raise symbols.Inexpressible(why)
    written = [[node[0], *node[1:]] if isinstance(node, tuple) else node for node in nodes]
    cases = [json.loads(text) for text in tree.cases]
    return {"nodes": written, "branches": tree.written(), "cases": cases, "listed": False}


def one_case(evaluate: Any, kw: Any, symbols: Any, code: Any, arguments: list[dict[str, Any]]) -> Any:
    """A module of its own for each path, so that none keeps anything for the next."""
    scope: dict[str, Any] = {"__name__": "plan", "__builtins__": {**vars(builtins), **symbols.REPLACED}}
    exec(code, scope)
    if not callable(scope.get("plan")):
        raise TypeError("plan.py defines no function plan(...)")
    kw.made.clear()
    given = [stand_in(kw, symbols, raw) for raw in arguments]
    case = evaluate.as_plan(kw, scope["plan"](*given))
    settle(symbols, case)
    return complete(as_data(symbols, case))


def settle(symbols: Any, case: dict[str, Any]) -> None:
    """What has to be known in every case: whether memory is zeroed, and what the compiler is told."""
    for holder, key in (*((memory, "zero") for memory in case["scratch"]), *((case["options"], k) for k in OPTIONS)):
        if isinstance(holder[key], symbols.Symbol):
            holder[key] = symbols.path.value_of(holder[key], f"the choice {key}")


def complete(case: dict[str, Any]) -> dict[str, Any]:
    """What a tensor map leaves out."""
    for launch in case["launches"]:
        for argument in launch["arguments"]:
            if argument["kind"] == "tensor_map":
                argument.setdefault("offset", 0)
    return case


def said(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == PLAN]
    where = f"plan.py:{frames[-1].lineno}" if frames else "plan.py"
    return f"{where}: {type(error).__name__}: {error}"


def main() -> int:
    request_path, output_path, go = map(Path, sys.argv[1:4])
    with go.open("rb") as pipe:
        pipe.read(1)
    try:
        made = formulate(request_path.parent, json.loads(request_path.read_text(encoding="utf-8")))
        output_path.write_text(json.dumps(made, allow_nan=False), encoding="utf-8")
    except BaseException as error:  # whatever a plan does is the candidate's fault, SystemExit included
        text = str(error) if type(error).__name__ == "Inexpressible" else said(error)
        sys.stderr.write(text.replace("\n", " ")[:1000] + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
