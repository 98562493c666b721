"""Which hidden workloads a program is judged on, and when the judge stops using one.

The pool has sixteen places, so that programs share workloads whose values and baselines are warm. What is asked can be
learned: a kernel may fail, hang or take its time on sizes of its choice, and its author sees that it did. So

- a program meets the same workloads whenever it is judged: asking again tells nothing, and comments do not count;
- workloads on which a judging failed, or did not come to its end, are retired;
- a workload that was used in `RETIRE_AFTER` judgings is retired.

That is for what verdicts tell. How long a judging takes may tell a patient author which sizes are in use now: a fresh
workload for each program would close that and cost its baselines' compilation each time (decision 30). Whether a kernel
is right does not hang on it: check points are drawn afresh for each full judging.

A retired workload's place gets the next generation. What was used is kept in the judge's state directory, so that it
holds for every process that has the key. Where that cannot be written it holds for this process alone.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kernelwright.judge.keys import derive
from kernelwright.paths import state_dir, write_whole
from kernelwright.tasks.hidden import hidden_workloads, sample_places
from kernelwright.tasks.model import Task, Workload

PLACES = 16
RETIRE_AFTER = 16
REMEMBERED = 512  # programs of one task


@dataclass
class PoolPlace:
    """One place of the pool. `unfinished`: a judging began with its workload and has not ended yet, or never did."""

    generation: int = 0
    uses: int = 0
    unfinished: bool = False
    workload: Workload | None = None  # drawn when it is needed

    def retire(self) -> None:
        self.generation, self.uses, self.unfinished, self.workload = self.generation + 1, 0, False, None


@dataclass
class PoolState:
    """What became of one task's pool: its places, and the workloads of the programs that were judged last."""

    places: list[PoolPlace] = field(default_factory=lambda: [PoolPlace() for _ in range(PLACES)])
    programs: dict[str, list[tuple[int, int, Workload]]] = field(default_factory=dict)  # place, generation, workload

    def remember(self, program: str, chosen: list[tuple[int, int, Workload]]) -> None:
        self.programs[program] = chosen
        while len(self.programs) > REMEMBERED:
            del self.programs[next(iter(self.programs))]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_json(raw: bytes) -> PoolState:
        """Raises ValueError, TypeError, KeyError or AttributeError for what is not such a state."""
        found = json.loads(raw)
        places = [_place(**one) for one in found["places"]]
        if len(places) != PLACES:
            raise ValueError(f"a pool has {PLACES} places")
        programs = {
            program: [(int(place), int(generation), _workload(raw)) for place, generation, raw in chosen]
            for program, chosen in found["programs"].items()
        }
        return PoolState(places, programs)


def _place(generation: int, uses: int, unfinished: bool, workload: dict[str, object] | None) -> PoolPlace:
    return PoolPlace(int(generation), int(uses), bool(unfinished), None if workload is None else _workload(workload))


def _workload(raw: dict[str, object]) -> Workload:
    sizes = raw["sizes"]
    if not isinstance(sizes, list):
        raise TypeError("sizes are a list")
    return Workload(tuple((str(name), int(value)) for name, value in sizes), str(raw["dtype"]), hidden=True)


class HiddenPool:
    """`folder` is where states are kept; None keeps them in memory."""

    def __init__(self, key: bytes, folder: Path | None) -> None:
        self._key, self._folder = key, folder
        self._states: dict[str, PoolState] = {}

    @staticmethod
    def of_judge(key: bytes) -> HiddenPool:
        try:
            return HiddenPool(key, state_dir("hidden"))
        except OSError:
            return HiddenPool(key, None)

    def sample(self, task: Task, program: str, count: int) -> tuple[Workload, ...]:
        """The workloads for one program, and the beginning of a judging on them."""
        with self._state(task) as state:
            chosen = self._remembered(state, program, count) or self._choose(task, state, program, count)
            state.remember(program, chosen)
            for number, generation, _ in chosen:
                place = state.places[number]
                if place.generation != generation:
                    continue
                if place.unfinished:  # the program has its workloads still, and no other program gets them
                    place.retire()
                else:
                    place.uses, place.unfinished = place.uses + 1, True
            return tuple(workload for _, _, workload in chosen)

    def foreseen(self, task: Task, program: str, count: int) -> tuple[Workload, ...]:
        """What `sample` would give once the judging under way has come to a good end. Nothing counts as used."""
        with self._state(task) as state:
            known = state.programs.get(program, ())
            if len(known) == min(count, PLACES):
                return tuple(workload for _, _, workload in known)
            pool = self._pool(task, state)
            return tuple(pool[number] for number in self._numbers(pool, program, count))

    def used(self, task: Task, program: str, *, failed: bool) -> None:
        """The end of a judging on the workloads of `program`."""
        with self._state(task) as state:
            for number, generation, _ in state.programs.get(program, ()):
                place = state.places[number]
                if place.generation == generation:
                    place.unfinished = False
                    if failed or place.uses >= RETIRE_AFTER:
                        place.retire()

    def turnovers(self, task: Task) -> int:
        """How often as many workloads were retired as the pool has."""
        with self._state(task) as state:
            return sum(place.generation for place in state.places) // PLACES

    def _remembered(self, state: PoolState, program: str, count: int) -> list[tuple[int, int, Workload]] | None:
        chosen = state.programs.pop(program, [])
        return chosen if len(chosen) == min(count, PLACES) else None

    def _choose(self, task: Task, state: PoolState, program: str, count: int) -> list[tuple[int, int, Workload]]:
        numbers = self._numbers(self._pool(task, state), program, count)
        places = [state.places[number] for number in numbers]
        for place in places:
            if place.unfinished or place.uses >= RETIRE_AFTER:
                place.retire()
        pool = self._pool(task, state)
        return [(number, state.places[number].generation, pool[number]) for number in numbers]

    def _numbers(self, pool: tuple[Workload, ...], program: str, count: int) -> tuple[int, ...]:
        return sample_places(pool, derive(self._key, "choice"), program, count)

    def _pool(self, task: Task, state: PoolState) -> tuple[Workload, ...]:
        """The workload of every place. Only those that have none yet are drawn."""
        generations = {number: place.generation for number, place in enumerate(state.places)}
        kept = {number: place.workload for number, place in enumerate(state.places) if place.workload is not None}
        pool = hidden_workloads(task, derive(self._key, "hidden"), PLACES, generations, kept)
        for place, workload in zip(state.places, pool, strict=True):
            place.workload = workload
        return pool

    @contextmanager
    def _state(self, task: Task) -> Iterator[PoolState]:
        """The state of a task's pool, read before and written after, with other processes kept out in between."""
        declared = json.dumps([dict(task.hidden), [dict(sizes) for sizes in task.public], task.dtypes, task.work])
        name = derive(self._key, "uses", task.name, declared).hex()[:32]
        with self._locked(name):
            state = self._states[name] = self._read(name) or self._states.get(name) or PoolState()
            yield state
            try:
                if self._folder is not None:
                    write_whole(self._folder / f"{name}.json", state.to_json(), mode=0o600)
            except OSError:
                self._folder = None  # from now on it holds for this process, and a judging goes on

    def _read(self, name: str) -> PoolState | None:
        if self._folder is None:
            return None
        try:
            return PoolState.from_json((self._folder / f"{name}.json").read_bytes())
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        try:
            handle = None if self._folder is None else (self._folder / f"{name}.lock").open("wb")
        except OSError:
            handle = None
        if handle is None:
            yield
            return
        with handle:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
