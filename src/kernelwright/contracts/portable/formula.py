"""The launch formula: a plan as data. A decision tree over sizes, with launches and definitions at its leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .expressions import FormulaError, Node, Nodes, Values
from .launches import PlannedCall
from .reading import MalformedData, flag, identifier, listed, record, text, whole

MOST_CASES = 1024
MOST_BRANCHES = 8192
DEEPEST = 512
UNCOVERED = None


@dataclass(frozen=True)
class Case:
    """What holds at one leaf: launches over sizes, and how the kernels are compiled, which is the same for all sizes
    that come here. Cases of one `build` share their modules."""

    planned: PlannedCall
    definitions: tuple[tuple[str, str], ...] = ()
    std: str = "c++17"
    fast_math: bool = False
    max_registers: int | None = None

    @property
    def build(self) -> tuple[tuple[tuple[str, str], ...], str, bool, int | None]:
        return self.definitions, self.std, self.fast_math, self.max_registers

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(launch.kernel for launch in self.planned.launches))

    def to_json(self) -> dict[str, Any]:
        """As a plan (contracts/cuda/plan.py) has it."""
        options = {"std": self.std, "fast_math": self.fast_math, "max_registers": self.max_registers}
        definitions = [list(pair) for pair in self.definitions]
        return {**self.planned.to_json(), "definitions": definitions, "options": options}

    @classmethod
    def from_json(cls, raw: object) -> Case:
        given = record(raw, "case", ("launches", "scratch", "workspaces", "definitions", "options"))
        options = record(given["options"], "options", ("std", "fast_math", "max_registers"))
        most = options["max_registers"]
        return cls(
            PlannedCall.from_json({name: given[name] for name in ("launches", "scratch", "workspaces")}),
            listed(given["definitions"], "definitions", _definition, 512),
            text(options["std"], "std", 16),
            flag(options["fast_math"], "fast_math"),
            None if most is None else whole(most, "max_registers", 16, 255),
        )


def _definition(raw: object) -> tuple[str, str]:
    if not isinstance(raw, list) or len(raw) != 2:
        raise MalformedData("a definition is not a name and a text")
    return identifier(raw[0], "definition"), text(raw[1], "definition")


Target = int | None
"""Where a branch goes: to a later branch from 0 on, to the case -1 - n, or to no case at all."""


@dataclass(frozen=True)
class Branch:
    """One comparison of the plan."""

    node: int
    when_true: Target
    when_false: Target


@dataclass(frozen=True)
class LaunchFormula:
    """`listed` formulas hold at the sizes that were evaluated and nowhere else; the others wherever a leaf is reached.

    The first branch is the root; without branches the first case holds always. The tree goes forward only, so a walk
    ends.
    """

    nodes: Nodes
    branches: tuple[Branch, ...]
    cases: tuple[Case, ...]
    listed: bool = False

    def __post_init__(self) -> None:
        if not self.cases or len(self.cases) > MOST_CASES or len(self.branches) > MOST_BRANCHES:
            raise MalformedData(f"a formula has 1 to {MOST_CASES} cases and at most {MOST_BRANCHES} branches")
        for number, branch in enumerate(self.branches):
            if not 0 <= branch.node < len(self.nodes.table):
                raise MalformedData(f"branch {number} compares a node that is not there")
            for target in (branch.when_true, branch.when_false):
                if target is not None and not (number < target < len(self.branches) or -len(self.cases) <= target < 0):
                    raise MalformedData(f"branch {number} leads nowhere")
        if any(at >= len(self.nodes.table) for case in self.cases for at in case.planned.refs):
            raise MalformedData("a case uses a node that is not there")

    @property
    def sizes(self) -> tuple[str, ...]:
        return tuple(sorted(self.nodes.names))

    def case_at(self, sizes: Mapping[str, int]) -> int:
        """The number of the case that holds. Raises FormulaError where none does."""
        return self._case(self.nodes.at(sizes))

    def at(self, sizes: Mapping[str, int]) -> tuple[int, Case]:
        """The case that holds, its number, and its launches with numbers alone."""
        values = self.nodes.at(sizes)
        number = self._case(values)
        case = self.cases[number]
        planned = case.planned.at(values)
        return number, Case(planned, *case.build)

    def _case(self, values: Values) -> int:
        at: Target = 0 if self.branches else -1
        while at is not None and at >= 0:
            branch = self.branches[at]
            at = branch.when_true if values[branch.node] else branch.when_false
        if at is None:
            raise FormulaError("the formula does not cover these sizes")
        return -1 - at

    def to_json(self) -> dict[str, Any]:
        branches = [[branch.node, branch.when_true, branch.when_false] for branch in self.branches]
        cases = [case.to_json() for case in self.cases]
        return {"nodes": self.nodes.to_json(), "branches": branches, "cases": cases, "listed": self.listed}

    @classmethod
    def from_json(cls, raw: object) -> LaunchFormula:
        given = record(raw, "formula", ("nodes", "branches", "cases", "listed"))
        return cls(
            Nodes.from_json(given["nodes"]),
            listed(given["branches"], "branches", _branch, MOST_BRANCHES),
            listed(given["cases"], "cases", Case.from_json, MOST_CASES, 1),
            flag(given["listed"], "listed"),
        )

    @classmethod
    def of_listed(cls, found: Sequence[tuple[Mapping[str, int], Case]]) -> LaunchFormula:
        """A case for each of these sizes and for no others."""
        names = sorted({name for sizes, _ in found for name in sizes})
        table: list[Node] = list(names)
        branches: list[Branch] = []
        for number, (sizes, _) in enumerate(found):
            for order, name in enumerate(names):
                table += [sizes[name], ("eq", (names.index(name), len(table)))]
                last = order + 1 == len(names)
                here = len(branches)
                then = -1 - number if last else here + 1
                following = here + len(names) - order
                branches.append(Branch(len(table) - 1, then, following if number + 1 < len(found) else UNCOVERED))
        return cls(Nodes(tuple(table)), tuple(branches), tuple(case for _, case in found), listed=True)


def _branch(raw: object) -> Branch:
    if not isinstance(raw, list) or len(raw) != 3 or type(raw[0]) is not int:
        raise MalformedData("a branch is not a node and two targets")
    if not all(target is None or type(target) is int for target in raw[1:]):
        raise MalformedData("a branch leads to what is not a number")
    return Branch(*raw)
