"""How fast a member may be asked: so many at a time, so many a minute, and not while its provider asks for a pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MINUTE = 60.0


class Pace:
    """`sleep` says whether waiting is over for good, as `Event.wait` does."""

    def __init__(
        self,
        concurrency: int,
        per_minute: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], bool] | None = None,
    ) -> None:
        self._places = threading.BoundedSemaphore(concurrency)
        self._interval = 0.0 if per_minute is None else MINUTE / per_minute
        self._clock = clock
        self._sleep = sleep or threading.Event().wait
        self._lock = threading.Lock()
        self._next = clock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for a place and for the time of a request, and holds the place."""
        with self._places:
            while (wait := self._booked()) > 0 and not self._sleep(wait):
                pass
            yield

    def pause(self, seconds: float) -> None:
        """Nobody begins for so long: a provider that limits one request limits all."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)

    def _booked(self) -> float:
        """Takes the next time, if it has come; else how long until then. A pause may come meanwhile."""
        with self._lock:
            now = self._clock()
            if now < self._next:
                return self._next - now
            self._next = now + self._interval
            return 0.0
