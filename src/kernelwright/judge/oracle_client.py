"""The controller's side of the oracle: starts its process and asks it."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

from kernelwright.devices.names import CPU, Device
from kernelwright.errors import CannotDecide, JudgeOutOfMemory, KernelwrightError
from kernelwright.isolation import start
from kernelwright.isolation.channel import ChannelClosed, Message, pair
from kernelwright.isolation.roles import Role
from kernelwright.judge.verdict import ErrorReport
from kernelwright.tasks.cost import Cost
from kernelwright.tasks.domain import Coverage
from kernelwright.tasks.loading import Sources
from kernelwright.tasks.model import ModuleForm, ScalarSpec, Signature, TensorSpec, Workload

ANSWER_SECONDS = 600.0  # for one request, the oracle's start not counted


class OracleLost(CannotDecide):
    """The oracle's process ended. A new one can be started; what the old one knew is gone."""


@dataclass(frozen=True)
class WorkloadSpec:
    """A workload with the arguments that a kernel gets for it."""

    workload: Workload
    signature: Signature


@dataclass(frozen=True)
class OpenTask:
    reference: str
    name: str
    families: int
    constant: tuple[str, ...]
    public: tuple[WorkloadSpec, ...]
    sources: Sources = ()


@dataclass(frozen=True)
class FailingDraw:
    """The values on which a candidate failed: enough to draw them again."""

    family: str
    seed: int
    special: str = ""  # the name of the special values among them


@dataclass(frozen=True)
class CheckPoint:
    """A point of the declared domain. `work` is that of its workload, the median public one's being 1."""

    spec: WorkloadSpec
    work: float


@dataclass(frozen=True)
class NamedValues:
    """Special values by name, with their kind and the dtypes of workloads that they can be planted in. `heavy` ones
    are planted at a point of much work as well."""

    name: str
    kind: str
    dtypes: tuple[str, ...]
    heavy: bool = False


@dataclass(frozen=True)
class DomainChecks:
    """The points of one domain check, in the order of what they add, and what is checked there."""

    points: tuple[CheckPoint, ...]
    coverage: Coverage
    specials: tuple[NamedValues, ...]
    opted_out: tuple[str, ...]


class OracleClient:
    def __init__(self, key: bytes, threads: int, device: Device = CPU) -> None:
        self._channel, theirs = pair()
        with theirs:
            self._process = _start(theirs, threads)
        self._started = False
        self._posted = 0  # requests whose answers were not waited for
        self._first: Message = {"key": key.hex(), "threads": threads, "device": asdict(device)}

    def _ask(self, request: str, **arguments: Any) -> tuple[Message, list[int]]:
        try:
            self._send(request, arguments)
            self._await(request)
            answer, descriptors = self._channel.receive()
        except ChannelClosed:
            raise OracleLost(f"the oracle ended while asked to {request} ({self._ending()})") from None
        return _checked(answer), descriptors

    def _await(self, request: str) -> None:
        """A reference may never end; those who wait for other tasks must not wait with it."""
        readable, _, _ = select.select([self._channel.fd], [], [], ANSWER_SECONDS)
        if not readable:
            self._process.kill()
            raise OracleLost(f"the oracle did not {request} within {ANSWER_SECONDS:.0f} s, and was ended")

    def _send(self, request: str, arguments: Message) -> None:
        if not self._started:
            self._channel.send(self._first)
            _checked(self._channel.receive()[0])
            self._started = True
        while self._posted:
            self._posted -= 1
            self._await(request)
            _checked(self._channel.receive()[0])
        self._channel.send({"request": request, "arguments": arguments})

    def _post(self, request: str, **arguments: Any) -> None:
        """Asks without waiting. The next request tells of a failure."""
        try:
            self._send(request, arguments)
        except ChannelClosed:
            raise OracleLost(f"the oracle ended before it was asked to {request} ({self._ending()})") from None
        self._posted += 1

    def _ending(self) -> str:
        code = self._process.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def open(self, task: str) -> OpenTask:
        answer, _ = self._ask("open", task=task)
        public = tuple(_posed(entry) for entry in answer["workloads"])
        sources = tuple((path, digest) for path, digest in answer["sources"])
        return OpenTask(task, answer["name"], answer["families"], tuple(answer["constant"]), public, sources)

    def hidden(self, task: OpenTask, candidate: str, count: int) -> tuple[WorkloadSpec, ...]:
        answer, _ = self._ask("hidden", task=task.reference, candidate=candidate, count=count)
        return tuple(_posed(entry) for entry in answer["workloads"])

    def foreseen(self, task: OpenTask, candidate: str, count: int) -> tuple[WorkloadSpec, ...]:
        """The hidden workloads that a later judging will get, unless they are retired before. No judging begins."""
        answer, _ = self._ask("foreseen", task=task.reference, candidate=candidate, count=count)
        return tuple(_posed(entry) for entry in answer["workloads"])

    def used(self, task: OpenTask, candidate: str, *, failed: bool) -> None:
        """A judging on the hidden workloads of `candidate` is over."""
        self._ask("used", task=task.reference, candidate=candidate, failed=failed)

    def small(self, task: OpenTask, count: int) -> tuple[WorkloadSpec, ...]:
        answer, _ = self._ask("small", task=task.reference, count=count)
        return tuple(_posed(entry) for entry in answer["workloads"])

    def lighter(self, task: OpenTask, most: float) -> tuple[WorkloadSpec, ...]:
        answer, _ = self._ask("lighter", task=task.reference, most=most)
        return tuple(_posed(entry) for entry in answer["workloads"])

    def specs(self, task: OpenTask, workloads: tuple[Workload, ...]) -> tuple[WorkloadSpec, ...]:
        answer, _ = self._ask("specs", task=task.reference, workloads=[_json(workload) for workload in workloads])
        return tuple(_posed(entry) for entry in answer["workloads"])

    def arena(self, task: OpenTask, workload: Workload) -> tuple[str, list[int]]:
        """The level of the arena, and descriptors of its tensors, which the caller closes."""
        answer, descriptors = self._ask("arena", task=task.reference, workload=_json(workload))
        return answer["level"], descriptors

    def begin(self, task: OpenTask, workload: Workload, runner: str, first: tuple[FailingDraw, ...] = ()) -> None:
        draws = [asdict(failing_draw) for failing_draw in first]
        self._ask("begin", task=task.reference, workload=_json(workload), runner=runner, first=draws)

    def choose_checks(self, task: OpenTask, key: bytes) -> None:
        """Lets the oracle choose the points of a key meanwhile, without waiting."""
        self._post("checks", task=task.reference, key=key.hex())

    def checks(self, task: OpenTask, key: bytes) -> DomainChecks:
        """The points that follow from a key. The oracle knows those of the last key alone."""
        answer, _ = self._ask("checks", task=task.reference, key=key.hex())
        return DomainChecks(
            tuple(CheckPoint(_posed(entry), entry["work"]) for entry in answer["points"]),
            _coverage(answer["coverage"]),
            tuple(NamedValues(name, kind, tuple(types), heavy) for name, kind, types, heavy in answer["specials"]),
            tuple(answer["opted_out"]),
        )

    def coverage(self, task: OpenTask, workloads: tuple[Workload, ...]) -> Coverage:
        """What some of the points cover."""
        named = [_json(workload) for workload in workloads]
        return _coverage(self._ask("coverage", task=task.reference, workloads=named)[0])

    def expect(self, task: OpenTask, runner: str, planned: list[tuple[Workload, tuple[str, ...]]]) -> None:
        """Which calls will be made at the points, by the names of special values, so that they can be drawn ahead."""
        named = [(_json(workload), list(specials)) for workload, specials in planned]
        self._ask("expect", task=task.reference, runner=runner, planned=named)

    def draw_ahead(self, seconds: float) -> None:
        """Lets the oracle draw values of check points meanwhile, without waiting; the next request waits for it."""
        self._post("ahead", seconds=seconds)

    def point(
        self, task: OpenTask, spec: WorkloadSpec, other: WorkloadSpec | None = None
    ) -> tuple[str, list[int], list[int]]:
        """As `arena`, for a check point: its memory goes when the next one is opened, or at `leave`. With descriptors
        of an `other` point as well, which can be loaded and is not checked."""
        beside = _json(other.workload) if other is not None else None
        answer, descriptors = self._ask("point", task=task.reference, workload=_json(spec.workload), other=beside)
        count = len(spec.signature.tensors)
        return answer["level"], descriptors[:count], descriptors[count:]

    def load_other(self) -> str:
        """Loads values of which nothing is expected into the other point; says their input family."""
        return str(self._ask("load_other")[0]["family"])

    def begin_at_point(
        self,
        task: OpenTask,
        workload: Workload,
        runner: str,
        specials: tuple[str, ...],
        first: tuple[FailingDraw, ...] = (),
        unchecked: int = 0,
    ) -> None:
        """As `begin`, at the open check point, and without waiting: the runner can start meanwhile. `unchecked` loads
        of which nothing is expected come first."""
        draws = [asdict(failing_draw) for failing_draw in first]
        arguments = {"runner": runner, "first": draws, "specials": list(specials), "unchecked": unchecked}
        self._post("begin", task=task.reference, workload=_json(workload), **arguments)

    def leave(self) -> None:
        self._ask("leave")

    def forget(self) -> FailingDraw | None:
        """The last runner's candidate was rejected: what it saw must not come again. Answers what it saw last."""
        draw = self._ask("forget")[0]["draw"]
        return FailingDraw(**draw) if draw else None

    def load(self) -> str:
        """Loads the next trial; says its input family."""
        return str(self._ask("load")[0]["family"])

    def restore(self) -> None:
        self._ask("restore")

    def check(self, *, remember: bool = False) -> Message:
        return self._ask("check", remember=remember)[0]

    def repeat(self) -> None:
        self._ask("repeat")

    def repeated(self) -> bool:
        return bool(self._ask("repeated")[0]["same"])

    def cost(self, task: OpenTask, workload: Workload) -> Cost:
        """What a workload takes at least, whatever computes it."""
        return Cost(**self._ask("cost", task=task.reference, workload=_json(workload))[0])

    def peaks(self) -> Message:
        """What the oracle's GPU reaches. Measured the first time, under the device's lock, which must be free."""
        return self._ask("peaks")[0]

    def reserve(self, task: OpenTask, specs: tuple[WorkloadSpec, ...], baselines: int) -> int:
        """Makes room for a judging on these workloads, and says how many bytes the largest needs; or refuses."""
        workloads = [_json(spec.workload) for spec in specs]
        return int(self._ask("reserve", task=task.reference, workloads=workloads, baselines=baselines)[0]["bytes"])

    def memory(self) -> Message:
        """What is held now, and what a judging may have: `used` and `limit`, in bytes."""
        return self._ask("memory")[0]

    def judging(self, *, errors: bool) -> None:
        """A judging begins; with `errors`, those of its checked calls are gathered."""
        self._ask("judging", errors=errors)

    def errors(self) -> tuple[tuple[ErrorReport, ...], tuple[ErrorReport, ...]]:
        """What was found in them: on all workloads, and on the public ones alone."""
        answer, _ = self._ask("errors")
        every, public = (tuple(ErrorReport(**one) for one in answer[part]) for part in ("all", "public"))
        return every, public

    def close(self) -> None:
        self._channel.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _checked(answer: Message) -> Message:
    if "error" in answer:
        error = (JudgeOutOfMemory if answer.get("memory") else KernelwrightError)(answer["error"])
        error.exit_code = answer["exit_code"]
        raise error
    found: Message = answer["ok"]
    return found


def _start(theirs: socket.socket, threads: int) -> subprocess.Popen[bytes]:
    # By default the threads of a parallel region spin for a while after it, on the cores where the next trial runs.
    variables = {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",
        "KMP_BLOCKTIME": "0",
        "MALLOC_MMAP_THRESHOLD_": str(256 << 20),  # tensors below are cut from memory that the process has already
        "MALLOC_TRIM_THRESHOLD_": str(1 << 30),  # `CpuOracleDevice.tidy` gives back what is too much
    }
    return start.serving(
        Role.oracle,
        [sys.executable, "-m", "kernelwright.judge.oracle.server", start.CHANNEL],
        start.Grant(variables=variables),
        theirs.fileno(),
    )


def _json(workload: Workload) -> Message:
    return {
        "sizes": [list(pair) for pair in workload.sizes],
        "dtype": workload.dtype,
        "hidden": workload.hidden,
    }


def _coverage(raw: Message) -> Coverage:
    counts = {name: tuple(raw[name]) for name in ("classes", "coarse_pairs", "fine_pairs")}
    return Coverage(**counts, missing=tuple(raw["missing"]))


def _posed(entry: Message) -> WorkloadSpec:
    raw = entry["workload"]
    workload = Workload(tuple((name, size) for name, size in raw["sizes"]), raw["dtype"], raw["hidden"])
    module = entry["module"]
    form = None if module is None else _module(module)
    return WorkloadSpec(workload, Signature(tuple(map(_argument, entry["signature"])), form))


def _module(raw: Message) -> ModuleForm:
    held = tuple((argument, name) for argument, name in raw["held"])
    return ModuleForm(raw["initial"], held, tuple((place, value) for place, value in raw["fixed"]))


def _argument(raw: Message) -> TensorSpec | ScalarSpec:
    if "value" in raw:
        return ScalarSpec(raw["name"], raw["value"])
    return TensorSpec(raw["name"], raw["dtype"], tuple(raw["shape"]), tuple(raw["strides"]), raw["role"])


def close_descriptors(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
