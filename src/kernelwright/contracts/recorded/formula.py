"""From recordings at several sizes to a launch formula: forms with explained numbers, and a tree that picks one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.contracts.portable import Case, FormulaError, LaunchFormula, Module, Nodes, Ref
from kernelwright.contracts.portable.expressions import Node, Term
from kernelwright.contracts.portable.formula import Branch
from kernelwright.contracts.portable.formula import Target as BranchTarget
from kernelwright.contracts.recorded.deciding import Divided, Tree, TreeLeaf, grown, leaf_at
from kernelwright.contracts.recorded.explain import FormFinder, columns
from kernelwright.contracts.recorded.planned import Number, PlannedProgram
from kernelwright.contracts.symbolic import Expression

Sizes = Mapping[str, int]
FEWEST = 3  # recordings of one form: two are on a line with anything


@dataclass(frozen=True)
class SizedRecording:
    sizes: Sizes
    program: PlannedProgram


@dataclass(frozen=True)
class CallShape:
    """Calls that differ in numbers alone, and the numbers as closed forms."""

    program: PlannedProgram
    numbers: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class FoundShapes:
    """`forms[n]` is None where the numbers are not explained: there the tree says which sizes are left alone."""

    forms: tuple[CallShape | None, ...]
    tree: Tree

    def leaf_at(self, sizes: Sizes) -> TreeLeaf | None:
        """Where a call is predicted."""
        leaf = leaf_at(self.tree, sizes)
        return leaf if leaf is not None and self.forms[leaf.form] is not None else None


def found_in(recordings: Sequence[SizedRecording], atoms: Sequence[Expression]) -> FoundShapes | None:
    """None where no question about sizes separates the forms."""
    groups: dict[object, list[int]] = {}
    for place, one in enumerate(recordings):
        groups.setdefault(one.program.form(), []).append(place)
    forms: list[CallShape | None] = []
    of = [0] * len(recordings)
    for places in groups.values():
        for part, form in _forms(recordings, places, atoms):
            for place in part:
                of[place] = len(forms)
            forms.append(form)
    tree = grown([one.sizes for one in recordings], of, atoms)
    return None if tree is None else FoundShapes(tuple(forms), tree)


def _forms(
    recordings: Sequence[SizedRecording], places: Sequence[int], atoms: Sequence[Expression]
) -> list[tuple[list[int], CallShape | None]]:
    """The group as one form. Where a number has no closed form, it is several forms that differ in a number of few
    values, or none."""
    if len(places) < FEWEST:
        return [(list(places), None)]
    closed = FormFinder(atoms, [recordings[place].sizes for place in places])
    rows = list(columns([recordings[place].program.numbers() for place in places]))
    explained = [closed.explain(column) for column in rows]
    known = tuple(one for one in explained if one is not None)
    if len(known) == len(rows):
        return [(list(places), CallShape(recordings[places[0]].program, known))]
    open_first = sorted(zip(rows, explained, strict=True), key=lambda pair: (len(set(pair[0])), pair[1] is not None))
    few = next((column for column, _ in open_first if 1 < len(set(column)) <= len(places) // FEWEST), None)
    if few is None:
        return [(list(places), None)]
    parts: dict[Number, list[int]] = {}
    for place, number in zip(places, few, strict=True):
        parts.setdefault(number, []).append(place)
    return [entry for part in parts.values() for entry in _forms(recordings, part, atoms)]


def written(finding: FoundShapes, kept: Sequence[TreeLeaf], apart: Sequence[SizedRecording]) -> Written | None:
    """The formula for the leaves that are kept, and before it the recordings that stand for themselves."""
    return _Writer(finding, kept).formula(apart)


@dataclass(frozen=True)
class Written:
    """A formula, and the modules of each of its cases."""

    formula: LaunchFormula
    modules: tuple[tuple[Module, ...], ...]


class _Writer:
    def __init__(self, finding: FoundShapes, kept: Sequence[TreeLeaf]) -> None:
        self._finding, self._kept = finding, kept
        self._table: dict[Node, int] = {}
        self._branches: list[list[BranchTarget]] = []
        self._cases: list[Case] = []
        self._modules: list[tuple[Module, ...]] = []
        self._of_form: dict[int, int] = {}

    def formula(self, apart: Sequence[SizedRecording]) -> Written | None:
        ends = []  # branches whose "no" leads on
        for one in apart:
            case = self._add(Case(one.program.call), one.program.modules)
            for place, name in enumerate(sorted(one.sizes)):
                node = self._node(("eq", name, one.sizes[name]))
                last = place + 1 == len(one.sizes)
                self._branches.append([node, -1 - case if last else len(self._branches) + 1, None])
                ends.append((len(self._branches) - 1, place))
        first_of = [at - place for at, place in ends]
        target = self._target(self._finding.tree)
        for (at, _), first in zip(ends, first_of, strict=True):
            following = [start for start in sorted(set(first_of)) if start > first]
            self._branches[at][2] = following[0] if following else target
        if not self._cases:
            return None
        branches = tuple(Branch(int(node or 0), yes, no) for node, yes, no in self._branches)
        return Written(LaunchFormula(Nodes(tuple(self._table)), branches, tuple(self._cases)), tuple(self._modules))

    def _add(self, case: Case, modules: tuple[Module, ...]) -> int:
        self._cases.append(case)
        self._modules.append(modules)
        return len(self._cases) - 1

    def _target(self, tree: Tree) -> BranchTarget:
        if isinstance(tree, TreeLeaf):
            return -1 - self._case(tree.form) if tree in self._kept else None
        if isinstance(tree, Divided):
            at = self._branch(("eq", ("mod", tree.atom, tree.divisor), 0))
            self._branches[at][1:] = [self._target(tree.yes), self._target(tree.no)]
            return at
        at = self._branch(("le", tree.atom, tree.most))
        self._branches[at][1] = self._target(tree.low)
        if tree.least > tree.most + 1:
            known = self._branch(("ge", tree.atom, tree.least))
            self._branches[at][2] = known
            self._branches[known][1] = self._target(tree.high)
        else:
            self._branches[at][2] = self._target(tree.high)
        return at

    def _branch(self, question: Expression) -> int:
        self._branches.append([self._node(question), None, None])
        return len(self._branches) - 1

    def _case(self, number: int) -> int:
        if number not in self._of_form:
            form = self._finding.forms[number]
            assert form is not None
            numbers = [(kind, self._term(one)) for kind, one in form.numbers]
            self._of_form[number] = self._add(Case(form.program.with_numbers(numbers)), form.program.modules)
        return self._of_form[number]

    def _term(self, form: Expression) -> Term:
        return form if isinstance(form, int) else Ref(self._node(form))

    def _node(self, form: Expression) -> int:
        node: Node
        if isinstance(form, tuple):
            operation, *operands = form
            node = (str(operation), tuple(self._node(operand) for operand in operands))
        else:
            node = form
        return self._table.setdefault(node, len(self._table))


def agrees(written: Written, recording: SizedRecording) -> bool | None:
    """Whether a formula gives what was recorded, to the byte; None where it gives nothing."""
    try:
        number, case = written.formula.at(recording.sizes)
    except FormulaError:
        return None
    return PlannedProgram(case.planned, written.modules[number]).in_bytes() == recording.program.in_bytes()
