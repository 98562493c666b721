"""Judges that work side by side: a job is submitted and becomes a future, and the first that is completed comes first.

Each judge has a device of its own, and a job is done by one judge from its beginning to its end: a final and the best
that it challenges are so judged on one device. A pool of one judge works in the thread that waits for it. A signal
then interrupts the judging itself, and no other thread disturbs what is timed.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from kernelwright.search.judging import JudgeClient

Job = Callable[[JudgeClient], Any]


class JudgePool:
    def __init__(self, judges: Sequence[JudgeClient]) -> None:
        self.size = len(judges)
        self._free: queue.SimpleQueue[JudgeClient] = queue.SimpleQueue()
        for judge in judges:
            self._free.put(judge)
        self._waiting: deque[tuple[Job, Future[Any]]] = deque()  # of a pool of one

    def submit(self, job: Job) -> Future[Any]:
        """Begun by the first judge that is free. What a job raises is its future's exception."""
        future: Future[Any] = Future()
        if self.size == 1:
            self._waiting.append((job, future))
        else:
            threading.Thread(target=self._do, args=[job, future], name="judging", daemon=True).start()
        return future

    def first_completed(self, others: Collection[Future[Any]], seconds: float) -> None:
        """Returns when one of these futures is completed, or after so many seconds."""
        if self._waiting:
            job, future = self._waiting.popleft()
            judge = self._free.get()
            try:
                future.set_result(job(judge))
            except Exception as error:
                future.set_exception(error)
            finally:  # an interrupt goes through: the job is still planned, and a later run does it
                self._free.put(judge)
        else:
            wait(others, seconds, FIRST_COMPLETED)

    def _do(self, job: Job, future: Future[Any]) -> None:
        judge = self._free.get()
        try:
            future.set_result(job(judge))
        except BaseException as error:  # raised again by the thread that waits, which can tell the user
            future.set_exception(error)
        finally:
            self._free.put(judge)
