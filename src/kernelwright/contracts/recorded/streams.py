"""Whether the order in which host code enqueued is the only one that its streams allow, as far as it matters.

A program has one stream. On a device, what no wait puts in order may run in any order, or at the same time. So a
record is refused where two such steps share memory that can be written, and where a side stream runs before the
caller's work or after what the caller waits for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from kernelwright.contracts.recorded.pointers import CannotReplay
from kernelwright.contracts.recorded.record import RecordedStep, RecordedWait

CALLER = 0  # the stream that the caller waits for
BEGIN = -1  # what came before the call, as a step of the caller's stream

Known = dict[int, int]  # the last step of each stream that is over before what comes next


class StreamOrder:
    """What every stream has waited for, step by step."""

    def __init__(self) -> None:
        self._known: dict[int, Known] = defaultdict(dict, {CALLER: {CALLER: BEGIN}})
        self._past: dict[int, list[tuple[int, Known]]] = defaultdict(list, {CALLER: [(BEGIN, {CALLER: BEGIN})]})

    def wait(self, number: int, step: RecordedWait) -> None:
        """An event has in it what its stream had been given when it was recorded, and no more."""
        until = min(step.until, number)
        known = next((known for at, known in reversed(self._past[step.on]) if at < until), {})
        mine = self._known[step.stream]
        for stream, last in known.items():
            mine[stream] = max(mine.get(stream, BEGIN), last)
        self._past[step.stream].append((number, dict(mine)))

    def work(self, number: int, stream: int) -> None:
        if CALLER not in self._known[stream]:
            raise CannotReplay("a side stream begins without waiting for the caller's stream, and may run early")
        self._known[stream][stream] = number
        self._past[stream].append((number, dict(self._known[stream])))

    def over(self, number: int, stream: int, before: int) -> bool:
        """Whether a step of a stream is over before what stream `before` is given next."""
        return number <= self._known[before].get(stream, BEGIN - 1)


def check_order(steps: Sequence[RecordedStep], touched: Callable[[int], frozenset[str]]) -> None:
    """`touched`: the names of the writable blocks that a step has the address of. Raises CannotReplay."""
    if all(step.stream == CALLER for step in steps):
        return
    order, enqueued = StreamOrder(), list[tuple[int, int, frozenset[str]]]()
    for number, step in enumerate(steps):
        if isinstance(step, RecordedWait):
            order.wait(number, step)
            continue
        blocks = touched(number)
        for earlier, stream, others in enqueued:
            shared = blocks & others
            if shared and stream != step.stream and not order.over(earlier, stream, step.stream):
                raise CannotReplay(
                    f"two streams use {min(shared)}, and neither waits for the other: their order is not said"
                )
        order.work(number, step.stream)
        enqueued.append((number, step.stream, blocks))
    if not all(order.over(number, stream, CALLER) for number, stream, _ in enqueued):
        raise CannotReplay("work on a side stream is left that the caller's stream does not wait for")
