"""From a candidate whose host code is recorded to a portable kernel.

The listed sizes are recorded and hold as they are. For all other sizes a formula is looked for in recordings all over
the ranges. It is a guess until it has foretold recordings that were made afterwards: of every case, and at both ends
of every side that was found. What it does not foretell, and what lies between two sides, is left to the reference.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.layout import extent_bytes
from kernelwright.contracts.model import BuildFailure, GpuBuild, GpuToolchain, PortableBuild, PortableRequest
from kernelwright.contracts.portable import Case, LaunchFormula, Module, PortableKernel, Variant, digest_of
from kernelwright.contracts.portable.reading import MalformedData
from kernelwright.contracts.recorded.deciding import Ordered, TreeLeaf, leaf_at, nodes_of, recordings_below
from kernelwright.contracts.recorded.explain import atoms_of
from kernelwright.contracts.recorded.formula import FoundShapes, SizedRecording, Written, agrees, found_in, written
from kernelwright.contracts.recorded.kept import keep, place_of, read_kept
from kernelwright.contracts.recorded.planned import planned
from kernelwright.contracts.symbolic import Expression, SymbolicSignature, value_of
from kernelwright.devices import lock
from kernelwright.tasks.model import Signature

FIRST = 32  # recordings all over the ranges, before anything is guessed
CLOSING, ROUNDS = 6, 12  # rounds in which gaps are made smaller, and all of them
MOST_RECORDED, MOST_FRESH = 240, 112  # recordings to guess from, and those that have to be foretold
FORETOLD = 3  # recordings that each case has to foretell in the last round
TRIES = 3000
INSIDE = 4  # recordings inside of a gap in one round, beside those at its likely end
BATCH = 24  # recordings that a recorder is asked for at once
MOST_BYTES = 8 << 30  # of all tensors of a call
MOST_CASES = 64

Sizes = Mapping[str, int]
Build = Callable[[tuple[Signature, ...]], GpuBuild | BuildFailure]


def build_portable(
    toolchain: GpuToolchain, candidate: Candidate, request: PortableRequest
) -> PortableBuild | BuildFailure:
    kept = place_of(candidate, request, toolchain.compiler)
    known = read_kept(kept)
    if known is not None:
        return known

    def build(signatures: tuple[Signature, ...]) -> GpuBuild | BuildFailure:
        with lock.working():
            return toolchain.build(candidate, signatures)

    recorder = _Recorder(build, request.symbolic)
    listed = recorder.record([sizes for sizes, _ in request.listed])
    if isinstance(listed, BuildFailure):
        return listed
    made: Written | None = None
    note = "its host code was recorded at the listed sizes alone"
    if not request.listed_only and request.symbolic.sizes:
        made, note = _Search(recorder, request.symbolic, listed).formula()
    if made is None:
        found = LaunchFormula.of_listed([(one.sizes, Case(one.program.call)) for one in listed])
        made = Written(found, tuple(one.program.modules for one in listed))
    result = _build(candidate.contract, made, recorder.binaries, request, note)
    if isinstance(result, PortableBuild):
        keep(kept, result)
    return result


def _build(
    contract: str, made: Written, binaries: Mapping[str, bytes], request: PortableRequest, note: str
) -> PortableBuild | BuildFailure:
    target = request.target
    modules: dict[Module, int] = {}
    builds = [tuple(modules.setdefault(one, len(modules)) for one in needed) for needed in made.modules]
    device = (target.architecture, target.multiprocessors, target.shared_per_block, target.l2_bytes)
    try:
        variant = Variant(*device, made.formula, tuple(modules), tuple(builds))
    except MalformedData as error:
        return BuildFailure((f"its recordings do not make a portable kernel: {error}",))
    shapes, arguments = request.symbolic.portable()
    kernel = PortableKernel(request.task, contract, request.symbolic.sizes, shapes, arguments, variants=(variant,))
    return PortableBuild(kernel, {one.digest: binaries[one.digest] for one in modules}, note)


@dataclass
class _Recorder:
    """Programs at sizes; and the cubins of all of them."""

    build: Build
    symbolic: SymbolicSignature
    binaries: dict[str, bytes] = field(default_factory=dict)

    def record(self, sizes: Sequence[Sizes]) -> list[SizedRecording] | BuildFailure:
        found: list[SizedRecording] = []
        for start in range(0, len(sizes), BATCH):
            batch = sizes[start : start + BATCH]
            made = self.build(tuple(self.symbolic.at(one) for one in batch))
            if isinstance(made, BuildFailure):
                return made
            for one, built in zip(batch, made.built, strict=True):
                if built.program.library:
                    return BuildFailure((f"torch carries out {built.program.library[0]}: only kernels are portable",))
                self.binaries |= {digest_of(module): module for module in built.modules}
                found.append(SizedRecording(dict(one), planned(built)))
        return found


class _Search:
    """Guesses a formula, records where it may be wrong, and guesses again until it foretells what is recorded."""

    def __init__(self, recorder: _Recorder, symbolic: SymbolicSignature, listed: Sequence[SizedRecording]) -> None:
        self._recorder, self._symbolic, self._listed = recorder, symbolic, listed
        self._atoms = atoms_of(symbolic)
        self._known = list(listed)
        self._seen = {tuple(sorted(one.sizes.items())) for one in listed}
        self._chance = random.Random(0)

    def formula(self) -> tuple[Written | None, str]:
        """The formula, and a line where it does not cover the ranges."""
        failure = self._learn([*self._corners(), *self._drawn(FIRST)])
        for number in range(ROUNDS):
            if failure:
                return None, f"its host code cannot be recorded at all sizes: {failure}"
            finding = found_in(self._known, self._atoms)
            if finding is None or len(finding.forms) > MOST_CASES:
                return None, "the sizes at which its host code launches this or that could not be told apart"
            last = number + 1 == ROUNDS or len(self._known) > MOST_RECORDED
            between = self._between(finding) if number < CLOSING and not last else []
            if between:
                failure = self._learn(between)
                continue
            fresh = self._recorder.record(self._fresh(finding))
            if isinstance(fresh, BuildFailure):
                failure = fresh.lines[0]
                continue
            self._known += fresh
            made = self._settled(finding, fresh, last=last)
            if made is not None:
                return made
        return None, "no formula foretold what its host code launches at other sizes"

    def _learn(self, sizes: Sequence[Sizes]) -> str:
        found = self._recorder.record(sizes)
        if isinstance(found, BuildFailure):
            return found.lines[0]
        self._known += found
        return ""

    def _settled(
        self, finding: FoundShapes, fresh: Sequence[SizedRecording], *, last: bool
    ) -> tuple[Written | None, str] | None:
        """The formula if it foretold all that is fresh; None if it has to be guessed again. In the end the cases remain
        that were not wrong."""
        foretold: dict[TreeLeaf, int] = {}
        wrong: set[TreeLeaf] = set()
        leaves = [one for one in nodes_of(finding.tree) if isinstance(one, TreeLeaf)]
        whole = written(finding, [one for one in leaves if finding.forms[one.form] is not None], ())
        for one in fresh:
            leaf = finding.leaf_at(one.sizes)
            if leaf is not None:
                foretold[leaf] = foretold.get(leaf, 0) + 1
                if whole is None or not agrees(whole, one):
                    wrong.add(leaf)
        if wrong and not last:
            return None
        kept = [leaf for leaf, count in foretold.items() if count >= FORETOLD and leaf not in wrong]
        apart = [one for one in self._listed if finding.leaf_at(one.sizes) not in kept]
        made = written(finding, kept, apart) if kept else None
        if made is None:
            return None, "no formula foretold what its host code launches at other sizes"
        count = len(leaves) - len(kept)
        left = f"{count} of the {len(leaves)} ways in which its host code launches are used at listed sizes only"
        left = left if count else ""
        return made, left

    # --- where to record -----------------------------------------------------------------------------------------

    def _corners(self) -> Iterator[Sizes]:
        """Every size at its least and at its most, alone and together."""
        ranges = self._symbolic.sizes
        ends = [{one.name: one.least for one in ranges}, {one.name: one.most for one in ranges}]
        for sizes in (*ends, *({**ends[0], one.name: one.most} for one in ranges)):
            if self._is_new(sizes):
                yield sizes

    def _drawn(self, count: int) -> list[Sizes]:
        found: list[Sizes] = []
        for _ in range(TRIES):
            sizes = self._draw()
            if len(found) < count and self._is_new(sizes):
                found.append(sizes)
        return found

    def _draw(self) -> dict[str, int]:
        """Even on a logarithmic scale, every other time a multiple of a power of two."""
        chance, sizes = self._chance, {}
        for size in self._symbolic.sizes:
            spread = math.log(max(size.least, 1)), math.log(max(size.most, 1))
            value = round(math.exp(chance.uniform(*spread)))
            value -= value % (1 << chance.randrange(1, 9)) if chance.random() < 0.5 else 0
            sizes[size.name] = min(size.most, max(size.least, value))
        return sizes

    def _is_new(self, sizes: Sizes) -> bool:
        """And not larger than can be recorded. It is not new any more after that."""
        key = tuple(sorted(sizes.items()))
        if key in self._seen or sum(map(extent_bytes, self._symbolic.at(sizes).tensors)) > MOST_BYTES:
            return False
        self._seen.add(key)
        return True

    def _fresh(self, finding: FoundShapes) -> list[Sizes]:
        """For every case some sizes that were never recorded."""
        leaves = [one for one in nodes_of(finding.tree) if isinstance(one, TreeLeaf)]
        missing = dict.fromkeys(leaves, FORETOLD)
        found: list[Sizes] = []
        for _ in range(TRIES):
            sizes = self._draw()
            leaf = leaf_at(finding.tree, sizes)
            if leaf is not None and missing.get(leaf, 0) and len(found) < MOST_FRESH and self._is_new(sizes):
                missing[leaf] -= 1
                found.append(sizes)
        for leaf, count in missing.items():
            found += self._mixed(finding, leaf, min(count, MOST_FRESH - len(found)))
        return found

    def _mixed(self, finding: FoundShapes, leaf: TreeLeaf, count: int) -> Iterator[Sizes]:
        """For a case that is seldom met: its recordings with each other's sizes, a little moved."""
        chance = self._chance
        for _ in range(TRIES if count else 0):
            one, other = (self._known[chance.choice(leaf.at)].sizes for _ in range(2))
            sizes = {name: chance.choice((one[name], other[name])) for name in one}
            moved = chance.choice(self._symbolic.sizes)
            step = chance.choice((1, 2, 4, 8, 16, 64)) * chance.choice((-1, 1))
            sizes[moved.name] = min(moved.most, max(moved.least, sizes[moved.name] + step))
            if count and leaf_at(finding.tree, sizes) == leaf and self._is_new(sizes):
                count -= 1
                yield sizes

    def _between(self, finding: FoundShapes) -> list[Sizes]:
        """Sizes that are between two sides of which nothing is known."""
        found: list[Sizes] = []
        for node in nodes_of(finding.tree):
            if isinstance(node, Ordered) and node.least > node.most + 1:
                found += [sizes for sizes in self._across(node) if self._is_new(sizes)]
        return found[:MOST_FRESH]

    def _across(self, node: Ordered) -> Iterator[Sizes]:
        low = self._known[max(recordings_below(node.low), key=lambda at: self._value(node.atom, at))].sizes
        high = self._known[min(recordings_below(node.high), key=lambda at: self._value(node.atom, at))].sizes
        if isinstance(node.atom, str):
            if node.most == 1:  # a size of 1 is often a case of its own
                yield {**high, node.atom: 2}
                return
            likely, width = _roundest(node.most, node.least), node.least - node.most
            even = (node.most + width * part // (INSIDE + 1) for part in range(1, INSIDE + 1))
            for number, value in enumerate(dict.fromkeys((likely - 1, likely, likely + 1, *even))):
                if node.most < value < node.least:
                    yield {**(high if number % 2 else low), node.atom: value}
            return
        for part in (0.25, 0.5, 0.75):
            sizes = {name: round(low[name] ** (1 - part) * high[name] ** part) for name in low}
            if node.most < value_of(node.atom, sizes) < node.least:
                yield sizes

    def _value(self, atom: Expression, at: int) -> int:
        return value_of(atom, self._known[at].sizes)


def _roundest(least: int, most: int) -> int:
    """The number from one to the other that is divided by the highest power of two."""
    step = 1 << most.bit_length()
    while most // step * step < least:
        step //= 2
    return most // step * step
