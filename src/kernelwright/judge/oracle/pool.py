"""The secret pool of (inputs, expected results) of one workload.

Pairs are reused across runners, because references are dear, and never within one, because a runner that has seen
a value may answer from memory. Old pairs are replaced from time to time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch

from kernelwright.judge.keys import derive, seed
from kernelwright.judge.oracle.errors.samples import ErrorSamples, choose_samples
from kernelwright.judge.oracle.needs import Slicing
from kernelwright.judge.oracle.right.tolerance import Expectation, held_against, study_trial
from kernelwright.judge.oracle.sliced import Expect, SlicedExpectation, checksum
from kernelwright.judge.oracle.special_values import SpecialValues, draw_special, special_expectations, special_values
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.model import Scalar, Task, Workload
from kernelwright.tasks.reference import Argument

Results = dict[str, torch.Tensor]
CPU = torch.device("cpu")
RUNNERS_PER_REPLACEMENT = 8
LEAST_ANSWER = 4096  # elements; a smaller answer could be carried from one candidate to the next by a verdict


@dataclass(frozen=True)
class SeededDraw:
    """What gives a pair its values. Each seed is an HMAC of its own: knowing one tells nothing of the others."""

    family: str
    seed: int
    special: str = ""  # the name of special values that are planted; those of a family alone where it is empty


@dataclass(frozen=True)
class PoolEntry:
    number: int
    draw: SeededDraw
    inputs: dict[str, torch.Tensor | Scalar]
    expectations: dict[str, Expectation]
    samples: ErrorSamples | None = None  # where its errors are measured in a full judging
    sliced: SlicedExpectation | None = None  # in place of expectations, where the trial is large
    sums: dict[str, int] = field(default_factory=dict)  # checksums of inputs that lie in the arena alone

    def leave_in(self, views: Mapping[str, torch.Tensor], kept: tuple[str, ...], secret: int) -> None:
        """Drops the inputs of a large trial, but for those that are changed: from now on they are read from views."""
        for name in [name for name in views if name not in kept and name in self.inputs]:
            if self.inputs[name] is not views[name]:
                self.sums[name] = checksum(self.tensor(name), secret)
                self.inputs[name] = views[name]

    def changed_input(self, secret: int) -> str | None:
        """An input that lies in the arena and is not what it was, if there is one."""
        found = (name for name, known in self.sums.items() if checksum(self.tensor(name), secret) != known)
        return next(found, None)

    def tensor(self, name: str) -> torch.Tensor:
        value = self.inputs[name]
        assert isinstance(value, torch.Tensor)
        return value

    @property
    def family(self) -> str:
        return self.draw.family

    @property
    def bytes(self) -> int:
        tensors = [value for value in self.inputs.values() if isinstance(value, torch.Tensor)]
        held = sum(t.nbytes for t in tensors) + sum(e.nbytes for e in self.expectations.values())
        return held + (self.samples.nbytes if self.samples is not None else 0)


@dataclass
class ValuePool:
    task: Task
    workload: Workload
    key: bytes
    device: torch.device = CPU
    items: list[PoolEntry] = field(default_factory=list)
    drawn: int = 0
    runners: int = 0
    given: set[int] = field(default_factory=set)
    slicing: Slicing | None = None

    @property
    def secret(self) -> int:
        """Of the checksums of inputs."""
        return seed(self.key, "checksum", self.workload.label)

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.items)

    def draw(self, family: Family) -> PoolEntry:
        """A pair that no runner has seen."""
        return self._drawn(SeededDraw(str(family), seed(self.key, "draw", self.workload.label, self.drawn)))

    def unexpected(self, draw: SeededDraw) -> PoolEntry:
        """Inputs alone, for a call whose results are not looked at."""
        inputs = draw_inputs(self.task, self.workload, self._named(draw.family), self._generator(draw.seed))
        return PoolEntry(self._next(), draw, inputs | self._constants(), {})

    def _next(self) -> int:
        self.drawn += 1
        return self.drawn - 1

    def _named(self, name: str) -> Family:
        return next(family for family in self.task.families if str(family) == name)

    def _drawn(self, draw: SeededDraw) -> PoolEntry:
        number, family = self._next(), self._named(draw.family)
        generator = self._generator(draw.seed)
        if self.slicing is not None:
            return self._large(number, draw, family, generator, self.slicing)
        if draw.special:
            return PoolEntry(number, draw, *self._specials(draw.special, family, generator))
        inputs = draw_inputs(self.task, self.workload, family, generator) | self._constants()
        seen = study_trial(self.task, inputs, self.workload)
        samples = choose_samples(self.task, seen, seed(self.key, "sample", self.workload.label, number))
        return PoolEntry(number, draw, inputs, held_against(self.task, inputs, seen), samples)

    def _specials(
        self, name: str, family: Family, generator: torch.Generator
    ) -> tuple[dict[str, torch.Tensor | Scalar], dict[str, Expectation]]:
        """Constant tensors stay what the candidate prepared for: special values are planted beside them."""
        special = special_named(self.task, name)
        inputs = draw_special(self.task, self.workload, special, family, generator, self._constants())
        return inputs, special_expectations(self.task, inputs, self.workload, special)

    def _large(
        self, number: int, draw: SeededDraw, family: Family, generator: torch.Generator, slicing: Slicing
    ) -> PoolEntry:
        """Inputs alone: what follows from them is computed after the call, in slices."""
        expect: Expect = self._expected
        if draw.special:
            special = special_named(self.task, draw.special)
            inputs = draw_special(self.task, self.workload, special, family, generator, self._constants())
            expect = partial(self._expected_pattern, special)
        else:
            inputs = draw_inputs(self.task, self.workload, family, generator) | self._constants()
        return PoolEntry(number, draw, inputs, {}, None, SlicedExpectation(slicing, expect))

    def _expected(self, inputs: dict[str, Argument]) -> dict[str, Expectation]:
        return held_against(self.task, inputs, study_trial(self.task, inputs, self.workload))

    def _expected_pattern(self, special: SpecialValues, inputs: dict[str, Argument]) -> dict[str, Expectation]:
        return special_expectations(self.task, inputs, self.workload, special)

    def sampled(self, item: PoolEntry, results: Mapping[str, torch.Tensor]) -> tuple[PoolEntry, Results]:
        """A trial in which errors are measured: the whole one, or of a large one a slice that only the key tells."""
        if item.sliced is None or item.draw.special:
            return item, dict(results)
        secret = seed(self.key, "sample", self.workload.label, item.number)
        part = item.sliced.slice_numbered(item.inputs, secret)
        seen = study_trial(self.task, part.inputs, self.workload)
        samples = choose_samples(self.task, seen, secret)
        expected = held_against(self.task, part.inputs, seen)
        axes = item.sliced.slicing.axes.results
        cut = {name: one.narrow(axes[name], part.start, part.count).contiguous() for name, one in results.items()}
        return PoolEntry(item.number, item.draw, part.inputs, expected, samples), cut

    def checked(self, draws: Sequence[SeededDraw]) -> Iterator[PoolEntry]:
        """Exactly these, none of which is kept."""
        yield from map(self._drawn, draws)

    def _constants(self) -> dict[str, torch.Tensor | Scalar]:
        """Constant tensors have one value per workload and key: that is what makes them constant."""
        if not self.task.constant:
            return {}
        generator = self._generator(seed(self.key, "constant", self.workload.label))
        drawn = draw_inputs(self.task, self.workload, self.task.families[0], generator)
        return {name: drawn[name] for name in self.task.constant}

    def _generator(self, number: int) -> torch.Generator:
        """Values and references are drawn and computed where they are used. A seed means other values elsewhere."""
        return torch.Generator(self.device).manual_seed(number)

    def trials(self, runner: str, capacity: int, first: Sequence[SeededDraw] = ()) -> Iterator[PoolEntry]:
        """The pairs for one runner, in an order that only the key tells; endless, each given out once.

        `first` are draws to begin with: those on which a certificate says that the candidate failed.
        """
        self.runners += 1
        if self.runners % RUNNERS_PER_REPLACEMENT == 0 and self.items:
            self.items.pop(0)
        given: set[int] = set()
        self.given = given
        yield from map(self._drawn, first)
        while True:
            family = self._family(runner, len(given))
            choice = [item for item in self.items if item.number not in given and item.family == str(family)]
            if not choice:
                choice = [self._grow(capacity, family)]
            pick = derive(self.key, "order", runner, self.workload.label, len(given))
            item = choice[int.from_bytes(pick[:4], "big") % len(choice)]
            given.add(item.number)
            yield item

    def forget(self) -> None:
        """Drops the pairs that the last runner was given. What a rejected candidate printed, or the element that it
        got wrong, is shown to its author, who could teach the next candidate to recognise them."""
        self.items = [item for item in self.items if item.number not in self.given]

    def _family(self, runner: str, trial: int) -> Family:
        """Any few trials cover all families, in an order that cannot be foreseen: knowing which one comes would
        tell a kernel which shortcut will go unnoticed."""
        families = list(self.task.families)
        cycle, place = divmod(trial, len(families))
        random.Random(seed(self.key, "families", runner, self.workload.label, cycle)).shuffle(families)
        return families[place]

    def _grow(self, capacity: int, family: Family) -> PoolEntry:
        item = self.draw(family)
        if item.sliced is not None or sum(expected.size for expected in item.expectations.values()) < LEAST_ANSWER:
            return item
        while self.items and self.bytes + item.bytes > capacity:
            self.items.pop(0)
        self.items.append(item)
        return item


def special_named(task: Task, name: str) -> SpecialValues:
    """A certificate may name what this version does not know."""
    for special in special_values(task):
        if special.name == name:
            return special
    raise TaskError(f"{task.name}: has no special values that are called {name!r:.80}")
