"""Money that may be spent. It is set aside before a call, so that calls under way cannot overshoot together."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Purse:
    """`limit` None: without limit; what is spent is still counted."""

    def __init__(self, limit: float | None, spent: float = 0.0) -> None:
        self.limit = limit
        self._spent = max(0.0, spent)
        self._set_aside = 0.0
        self._changed = threading.Condition()

    @property
    def spent(self) -> float:
        with self._changed:
            return self._spent

    @property
    def left(self) -> float:
        return math.inf if self.limit is None else max(0.0, self.limit - self.spent)

    @contextmanager
    def set_aside(self, most: float) -> Iterator[Hold | None]:
        """Holds `most` until the block ends; None when it is not there, also not after all others are done.

        It waits for others, because they mostly spend a small part of what they hold.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._fits(most) or self._fits(most + self._set_aside))
            if not self._fits(most):
                hold = None
            else:
                hold = Hold()
                self._set_aside += most
        try:
            yield hold
        finally:
            if hold is not None:
                with self._changed:
                    self._set_aside -= most
                    self._spent += hold.spent
                    self._changed.notify_all()

    def _fits(self, amount: float) -> bool:
        return self.limit is None or self._spent + amount <= self.limit * (1 + 1e-9)


class Hold:
    """What one call says that it spent."""

    def __init__(self) -> None:
        self.spent = 0.0
