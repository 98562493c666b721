"""The oracle's process: answers the controller's requests, one at a time, over its channel."""

from __future__ import annotations

import random
import secrets
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch

from kernelwright.devices.driver import CudaFailure
from kernelwright.devices.names import CPU, Device
from kernelwright.errors import JudgeOutOfMemory, KernelwrightError
from kernelwright.isolation.channel import Channel, ChannelClosed, Message
from kernelwright.isolation.start import protect_this_process
from kernelwright.judge.keys import derive, seed
from kernelwright.judge.oracle.device import OracleDevice, oracle_device
from kernelwright.judge.oracle.errors.gathering import JudgingErrors
from kernelwright.judge.oracle.hidden_pool import HiddenPool
from kernelwright.judge.oracle.ledger import Ledger, Need
from kernelwright.judge.oracle.needs import MemoryPlan, plan_memory
from kernelwright.judge.oracle.points import PointArenas
from kernelwright.judge.oracle.pool import PoolEntry, SeededDraw, ValuePool
from kernelwright.judge.oracle.special_values import special_values
from kernelwright.judge.oracle.workload_arena import OutsideWrite, WorkloadArena, sentinel_word
from kernelwright.tasks.cost import cost
from kernelwright.tasks.domain import coverage
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.hidden import lighter_workload, require_within, small_workloads
from kernelwright.tasks.loading import sources_of
from kernelwright.tasks.model import Signature, Task, Workload
from kernelwright.tasks.reference import first_line_of, is_out_of_memory
from kernelwright.tasks.resolve import resolve

SMALL_SHARE = 64  # what one part in so many of the limit holds may stay when another task is opened
SHARED_BY = 4  # the memory for pools is shared by the workloads of a judging, or by so many of them


class Oracle:
    def __init__(self, key: bytes, threads: int, device: Device = CPU) -> None:
        torch.set_num_threads(threads)
        self._device: OracleDevice = oracle_device(device)
        self._key = key
        self._hidden = HiddenPool.of_judge(key)
        self._session = secrets.token_hex(16)  # no session draws the values of another
        self._tasks: dict[str, Task] = {}
        self._signatures: dict[tuple[str, Workload], Signature] = {}
        self._arenas: dict[tuple[str, Workload], WorkloadArena] = {}
        self._pools: dict[tuple[str, Workload], ValuePool] = {}
        self._arena: WorkloadArena | None = None
        self._trials: Iterator[PoolEntry] = iter(())
        self._sentinels = random.Random(seed(key, "sentinel"))
        self._looks = random.Random(seed(key, "looks", self._session))  # at the errors of which trials
        self._capacity = self._device.pool_bytes
        self._ledger = Ledger(self._device.limit_bytes)
        self._plans: dict[tuple[str, Workload, int], MemoryPlan] = {}
        self._baselines = self._workloads = 0  # of the judging that was reserved
        self._points = PointArenas(key, self._device)
        self._errors: JudgingErrors | None = None
        self.requests: dict[str, Callable[..., tuple[Message, list[int]] | Message]] = {
            "open": self.open,
            "hidden": self.hidden,
            "foreseen": self.foreseen,
            "used": self.used,
            "small": self.small,
            "lighter": self.lighter,
            "specs": self.specs,
            "checks": self.checks,
            "coverage": self.coverage,
            "expect": self.expect,
            "ahead": self.ahead,
            "point": self.point,
            "load_other": self.load_other,
            "leave": self.leave,
            "arena": self.arena,
            "begin": self.begin,
            "forget": self.forget,
            "load": self.load,
            "restore": self.restore,
            "check": self.check,
            "repeat": self.repeat,
            "repeated": self.repeated,
            "judging": self.judging,
            "reserve": self.reserve,
            "release": self.release,
            "memory": self.memory,
            "errors": self.errors,
            "cost": self.cost,
            "peaks": self._device.peaks,
        }

    def open(self, task: str) -> Message:
        """Reads a task and says what the controller has to know of it."""
        found = resolve(task, self._device.kind)
        self._tasks[task] = found
        self._give_back(task)
        public = found.public_workloads()
        return {
            "name": found.name,
            "families": len(found.families),
            "constant": list(found.constant),
            "sources": sources_of(found.origin, found.files),
            "workloads": [self._describe(task, workload) for workload in public],
        }

    def _give_back(self, task: str) -> None:
        """What other tasks hold, where it is not little; memory outside of torch goes with it."""
        self._ledger.enter(task, self._ledger.limit // SMALL_SHARE)
        self._device.tidy()

    def reserve(self, task: str, workloads: list[Message], baselines: int) -> Message:
        """A judging is about to begin: refuses it if one of its workloads does not fit, and makes room for the largest.

        Says what that needs.
        """
        self._baselines, self._workloads = baselines, len(workloads)
        largest: Need | None = None
        for workload in map(workload_from_json, workloads):
            need = self._plan(task, workload).need
            what = f"{self._tasks[task].name} at {workload.shown}"
            self._ledger.require(what, self._device.name, need, secret=workload.hidden)
            largest = need if largest is None or need.total > largest.total else largest
        if largest is not None:
            self._give_back(task)
            own = {name for name in (*self._arenas, *self._pools) if name[0] == task}
            self._ledger.make_room(largest.total, kept=self._kept(own))
        return {"bytes": largest.total if largest is not None else 0}

    def _kept(self, keys: set[tuple[str, Workload]]) -> set[tuple[str, tuple[str, Workload]]]:
        """Entries of the ledger that are used in this judging, unless they alone are more than there is room for."""
        names = {(kind, key) for kind in ("arena", "pool") for key in keys}
        return names if self._ledger.used * 2 <= self._ledger.limit else set()

    def _plan(self, task: str, workload: Workload) -> MemoryPlan:
        key = (task, workload, self._baselines)
        if key not in self._plans:
            self._describe(task, workload)
            made = self._signatures[task, workload]
            self._plans[key] = plan_memory(self._tasks[task], workload, made, self._ledger, self._baselines)
        return self._plans[key]

    def release(self) -> Message:
        """Gives back all that can be drawn again: memory is needed elsewhere."""
        self._arena, self._trials = None, iter(())
        self._points.close()
        self._ledger.clear()
        self._device.tidy()
        return {}

    def memory(self) -> Message:
        return {"used": self._ledger.used, "limit": self._ledger.limit}

    def hidden(self, task: str, candidate: str, count: int) -> Message:
        """The hidden workloads on which this candidate, named by its fingerprint, is judged."""
        chosen = self._hidden.sample(self._tasks[task], candidate, count)
        return {"workloads": [self._describe(task, workload) for workload in chosen]}

    def foreseen(self, task: str, candidate: str, count: int) -> Message:
        """Those that `hidden` would give if no judging were under way."""
        chosen = self._hidden.foreseen(self._tasks[task], candidate, count)
        return {"workloads": [self._describe(task, workload) for workload in chosen]}

    def used(self, task: str, candidate: str, failed: bool) -> Message:
        self._hidden.used(self._tasks[task], candidate, failed=failed)
        return {}

    def small(self, task: str, count: int) -> Message:
        """Workloads of little work, which are not secret."""
        chosen = small_workloads(self._tasks[task], count)
        return {"workloads": [self._describe(task, workload) for workload in chosen]}

    def lighter(self, task: str, most: float) -> Message:
        """A hidden workload for what takes too long on the others, the same for every candidate; or none."""
        found = self._tasks[task]
        key = derive(self._key, "lighter", self._hidden.turnovers(found))
        chosen = lighter_workload(found, key, lambda one: cost(found, one).weight, most)
        return {"workloads": [self._describe(task, chosen)] if chosen else []}

    def specs(self, task: str, workloads: list[Message]) -> Message:
        """Workloads that the controller names: those of a certificate, which a stranger may have signed."""
        named = [workload_from_json(workload) for workload in workloads]
        for workload in named:
            require_within(self._tasks[task], workload)
        return {"workloads": [self._describe(task, workload) for workload in named]}

    def checks(self, task: str, key: str) -> Message:
        """The points of the declared domain that follow from this key, and what is checked there."""
        found = self._tasks[task]
        points, coverage = self._points.choose(task, found, bytes.fromhex(key))
        return {
            "points": [{**_described(one.workload, one.signature), "work": one.work} for one in points],
            "coverage": asdict(coverage),
            "specials": [[one.name, str(one.kind), one.dtypes, one.heavy] for one in special_values(found)],
            "opted_out": list(found.unchecked),
        }

    def coverage(self, task: str, workloads: list[Message]) -> Message:
        """What some of the points cover, where not all of them were checked."""
        return asdict(coverage(self._tasks[task], [workload_from_json(one) for one in workloads]))

    def expect(self, task: str, runner: str, planned: list[tuple[Message, list[str]]]) -> Message:
        """Which calls will be made at the points."""
        self._ledger.keep("points", task, lambda: self._points.bytes, self._points.close)
        self._points.expect(task, runner, [(workload_from_json(one), specials) for one, specials in planned])
        return {}

    def ahead(self, seconds: float) -> Message:
        """Time in which nothing else is asked: values of check points are drawn."""
        self._points.ahead(seconds)
        return {}

    def point(self, task: str, workload: Message, other: Message | None = None) -> tuple[Message, list[int]]:
        """The memory of a check point, in place of that of the one before, and of an `other` one."""
        self._arena, self._trials = None, iter(())
        arena = self._points.open(task, workload_from_json(workload))
        beside = self._points.open_other(task, workload_from_json(other)) if other is not None else None
        return {"level": arena.level}, [*arena.descriptors, *(beside.descriptors if beside is not None else ())]

    def load_other(self) -> Message:
        """Values of which nothing is expected into the memory of the other point."""
        return {"family": self._points.load_other(sentinel_word(self._sentinels))}

    def leave(self) -> Message:
        """The last check point was checked."""
        self._arena, self._trials = None, iter(())
        self._points.close()
        return {}

    def _describe(self, task: str, workload: Workload) -> Message:
        key = (task, workload)
        if key not in self._signatures:
            self._signatures[key] = signature(self._tasks[task], workload)
        return _described(workload, self._signatures[key])

    def arena(self, task: str, workload: Message) -> tuple[Message, list[int]]:
        """The memory of a workload: opened on first use, those that were used longest ago closed to make room."""
        key = (task, workload_from_json(workload))
        plan = self._plan(*key)
        what = f"{self._tasks[task].name} at {key[1].shown}"
        self._ledger.require(what, self._device.name, plan.need, secret=key[1].hidden)
        if key not in self._arenas:
            self._ledger.make_room(plan.need.total, kept={("pool", key)})
            secret = derive(self._key, "pool", task, self._session)
            drawn = ValuePool(self._tasks[task], key[1], secret, self._device.torch_device, slicing=plan.slicing)
            pool = self._pools.setdefault(key, drawn)
            arena = self._device.arena(self._tasks[task], key[1], self._signatures[key], pool)
            self._arenas[key] = arena
            self._ledger.keep(("pool", key), task, lambda: pool.bytes, lambda: self._drop_pool(key))
            self._ledger.keep(("arena", key), task, lambda: arena.bytes, lambda: self._close_arena(key))
        for kind in ("pool", "arena"):
            self._ledger.use((kind, key))
        return {"level": self._arenas[key].level}, self._arenas[key].descriptors

    def _drop_pool(self, key: tuple[str, Workload]) -> None:
        """The pairs alone: an open arena goes on drawing from its pool."""
        pool = self._pools.get(key)
        if pool is None:
            return
        pool.items.clear()
        if key in self._arenas:
            self._ledger.keep(("pool", key), key[0], lambda: pool.bytes, lambda: self._drop_pool(key))
        else:
            del self._pools[key]

    def _close_arena(self, key: tuple[str, Workload]) -> None:
        arena = self._arenas.pop(key)
        if arena is self._arena:
            self._arena, self._trials = None, iter(())
        arena.close()

    def begin(
        self,
        task: str,
        workload: Message,
        runner: str,
        first: list[Message],
        specials: list[str] | None = None,
        unchecked: int = 0,
    ) -> Message:
        """A new runner comes: from here on it is given pairs that it has not seen.

        With `specials` it is at the open check point, and the loads that follow are exactly these: special values by
        name, or an input family where the name is empty. All are drawn here, while the runner starts. Before them come
        `unchecked` loads of which nothing is expected.
        """
        if specials is not None:
            self._arena = self._points.current
            draws = [SeededDraw(**draw) for draw in first]
            self._trials = self._points.draw(runner, draws, specials, unchecked)
            return {}
        key = (task, workload_from_json(workload))
        self._arena = self._arenas[key]
        need = self._plan(*key).need
        self._ledger.make_room(need.held + need.working + need.baselines, kept={("pool", key), ("arena", key)})
        self._device.tidy()
        self._arena.blank()
        free = self._ledger.limit - self._ledger.used - need.working - need.baselines
        share = self._capacity // max(1, min(self._workloads, SHARED_BY))
        capacity = max(0, min(share, free + self._pools[key].bytes))
        self._trials = self._arena.pool.trials(runner, capacity, [SeededDraw(**draw) for draw in first])
        return {}

    def forget(self) -> Message:
        """Never again what the last runner saw. Says what it saw last, which may be told because it is not reused."""
        self._current.pool.forget()
        return {"draw": asdict(self._current.item.draw) if self._current.loaded else None}

    def load(self) -> Message:
        """The next trial's values into the arena."""
        arena = self._current
        with_sentinel = sentinel_word(self._sentinels, halves_alike=arena.pool.slicing is not None)
        drawn = arena.pool.drawn
        item = next(self._trials)
        if arena.pool.drawn > drawn:  # a reference leaves as much memory behind as the values that are kept
            self._device.tidy()
        arena.load(item, with_sentinel)
        arena.settle()
        return {"family": item.family}

    def restore(self) -> Message:
        self._current.restore()
        return {}

    def check(self, remember: bool = False) -> Message:
        arena = self._current
        fault = arena.check()
        if isinstance(fault, OutsideWrite):
            return {"trespass": asdict(fault)}
        if fault is not None:
            result, mismatch = fault
            return {"result": result, "mismatch": mismatch.to_json()}
        if self._errors is not None:
            self._gather(arena, self._errors)
        if remember:
            arena.remember()
        return {}

    def _gather(self, arena: WorkloadArena, errors: JudgingErrors) -> None:
        """The errors of this trial, if they are looked at."""
        point = self._points.is_current(arena)
        if errors.looks_at(arena.workload, point=point, chance=self._looks.random()):
            item, results = arena.pool.sampled(arena.item, arena.results())
            errors.add(arena.task, arena.workload, item, results, point=point)

    def repeat(self) -> Message:
        """The values of the trial that was remembered, once more, under another sentinel."""
        alike = self._current.pool.slicing is not None
        self._current.load(self._current.item, sentinel_word(self._sentinels, halves_alike=alike))
        return {}

    def repeated(self) -> Message:
        return {"same": self._current.matches_remembered()}

    def judging(self, errors: bool) -> Message:
        """A judging begins: what was found in the errors of another candidate is dropped."""
        self._errors = JudgingErrors() if errors else None
        return {}

    def errors(self) -> Message:
        """What the errors of all checked calls since the judging began say. Nothing is gathered after it."""
        gathered, self._errors = self._errors, None
        return gathered.report() if gathered is not None else {"all": [], "public": []}

    def cost(self, task: str, workload: Message) -> Message:
        return asdict(cost(self._tasks[task], workload_from_json(workload)))

    def out_of_memory(self, request: Message, error: BaseException) -> str:
        """One line; what was held is given back, so that whatever comes next finds room."""
        with suppress(RuntimeError, OSError, CudaFailure):
            self.release()
        task = request["arguments"].get("task")
        name = self._tasks[task].name if task in self._tasks else "a judging"
        return f"{name}: the judge ran out of memory on {self._device.name} ({first_line_of(error)})"

    @property
    def _current(self) -> WorkloadArena:
        assert self._arena is not None, "begin comes first"
        return self._arena


def _described(workload: Workload, form: Signature) -> Message:
    module = None if form.module is None else asdict(form.module)
    return {"workload": asdict(workload), "signature": signature_to_json(form), "module": module}


def signature_to_json(value: Signature) -> list[Message]:
    return [asdict(argument) for argument in value.arguments]


def workload_from_json(value: Message) -> Workload:
    sizes = tuple((str(name), int(size)) for name, size in value["sizes"])
    return Workload(sizes, value["dtype"], value["hidden"])


def serve(channel: Channel) -> None:
    first, _ = channel.receive()
    try:
        oracle = Oracle(bytes.fromhex(first["key"]), first["threads"], Device(**first["device"]))
    except KernelwrightError as error:
        channel.send({"error": str(error), "exit_code": error.exit_code})
        return
    channel.send({"ok": {}})
    while True:
        request, _ = channel.receive()
        channel.send(*_answer(oracle, request))


def _answer(oracle: Oracle, request: Message) -> tuple[Message, list[int]]:
    try:
        result: Any = oracle.requests[request["request"]](**request["arguments"])
    except JudgeOutOfMemory as error:
        return {"error": oracle.out_of_memory(request, error), "exit_code": 3, "memory": True}, []
    except KernelwrightError as error:
        return {"error": str(error), "exit_code": error.exit_code}, []
    except (MemoryError, RuntimeError, OSError, CudaFailure) as error:
        if is_out_of_memory(error):
            return {"error": oracle.out_of_memory(request, error), "exit_code": 3, "memory": True}, []
        trace = traceback.format_exc(limit=-3)
        return {
            "error": f"the oracle failed on {request['request']}: {error}",
            "exit_code": 3,
            "trace": trace,
        }, []
    message, descriptors = result if isinstance(result, tuple) else (result, [])
    return {"ok": message}, descriptors


def main() -> None:
    protect_this_process()
    with suppress(ChannelClosed):  # the controller is done, or gone
        serve(Channel(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
