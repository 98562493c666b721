"""What an oracle's memory is used for, in bytes: who holds how much, and what is given back when others need it.

Pure: it knows neither a device nor torch. A holder of memory says how much it has and how to give it back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass

from kernelwright.errors import CannotDecide

GIB = 1 << 30


class TooLargeError(CannotDecide):
    """A judging that does not fit. Said before anything is spent on it."""


@dataclass(frozen=True)
class Need:
    """The bytes of one judging on one workload. `arena`: the tensors between oracle and runner. `held`: what stays from
    one trial to the next beside it. `working`: the most that one trial has besides. `baselines`: their processes."""

    arena: int
    held: int
    working: int
    baselines: int = 0

    @property
    def total(self) -> int:
        return self.arena + self.held + self.working + self.baselines


@dataclass
class _Entry:
    owner: str
    bytes: Callable[[], int]
    free: Callable[[], None]


class Ledger:
    """Entries in the order of their last use. `limit` is what all of them and a judging may have together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: dict[Hashable, _Entry] = {}

    @property
    def used(self) -> int:
        return sum(entry.bytes() for entry in self._entries.values())

    def keep(self, name: Hashable, owner: str, held: Callable[[], int], free: Callable[[], None]) -> None:
        """Memory that is held from now on; `owner` is its task. Naming it again means that it is used."""
        self._entries.pop(name, None)
        self._entries[name] = _Entry(owner, held, free)

    def use(self, name: Hashable) -> None:
        self._entries[name] = self._entries.pop(name)

    def drop(self, name: Hashable) -> None:
        """It was given back by its holder."""
        self._entries.pop(name, None)

    def fits(self, need: Need) -> bool:
        return need.total <= self.limit

    def require(self, what: str, device: str, need: Need, *, secret: bool = False) -> None:
        """Refuses what does not fit even if everything else is given back. What a `secret` workload needs would tell
        its sizes."""
        if not self.fits(need):
            wanted = "more" if secret else shown(need.total)
            raise TooLargeError(
                f"{what} needs {wanted}; {device} has {shown(self.limit)} free for a judging: choose smaller sizes, or "
                "a device with more memory"
            )

    def make_room(self, bytes_needed: int, kept: Collection[Hashable] = ()) -> None:
        """Gives back what was used longest ago until so much is free; what is `kept` stays."""
        for name in [name for name in self._entries if name not in kept]:
            if self.used + bytes_needed <= self.limit:
                return
            self._free(name)

    def enter(self, owner: str, small: int) -> None:
        """A task is opened: what other tasks hold is given back, unless it is small."""
        for name, entry in list(self._entries.items()):
            if entry.owner != owner and entry.bytes() > small:
                self._free(name)

    def clear(self) -> None:
        for name in list(self._entries):
            self._free(name)

    def _free(self, name: Hashable) -> None:
        self._entries.pop(name).free()


def shown(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / (1 << 20):.1f} MiB"
