"""A budget: how many evaluations, how much wall time, device time and money a run may take.

Written `200evals,30m,10m-device,5usd`, in any order; what is not named is not limited. What was spent is folded
from the journal. Time during which no driver was at work does not count.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal

from kernelwright.errors import KernelwrightError
from kernelwright.judge.wording import counted

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_EVALUATIONS = re.compile(r"([0-9]+)evals?")
_MONEY = re.compile(r"([0-9]+(?:\.[0-9]+)?)usd")
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smh])(-device)?")
EXAMPLE = "200evals,30m,10m-device,5usd"
MOST = 1e15  # of anything, evaluations or seconds: what is more is not a limit
UNTOUCHED = 0.25  # a part that is less used than this need not grow with the others
SHOWN = 60  # characters of a budget, in what is said of it


class BudgetError(KernelwrightError):
    """A budget that cannot be understood."""


@dataclass(frozen=True)
class Spent:
    evaluations: int = 0
    wall: float = 0.0
    device: float = 0.0
    usd: float = 0.0


@dataclass(frozen=True)
class TimeSpent:
    """What wall time was spent on, in seconds. Proposing goes on beside judging; judges may work side by side."""

    preparation: float = 0.0
    proposing: float = 0.0
    judging: float = 0.0
    finals: float = 0.0

    def in_words(self, wall: float, judges: int = 1) -> str:
        """The rest is time in which no judge worked: it waited for proposals, or for a final that did not fit."""
        waiting = max(0.0, wall - self.preparation - (self.judging + self.finals) / judges)
        parts = (
            ("preparation", self.preparation),
            ("judging", self.judging),
            ("finals", self.finals),
            ("waiting", waiting),
        )
        side = f"; proposing {self.proposing:.0f} s, partly beside it" if self.proposing >= 1 else ""
        return ", ".join(f"{name} {seconds:.0f} s" for name, seconds in parts) + side


@dataclass(frozen=True)
class Budget:
    """None: without limit."""

    evaluations: int | None = None
    wall: float | None = None
    device: float | None = None
    usd: float | None = None

    def exceeded(self, spent: Spent) -> str | None:
        """Which part of it is used up, in words."""
        if self.evaluations is not None and spent.evaluations >= self.evaluations:
            return counted(self.evaluations, "evaluation")
        if self.wall is not None and spent.wall >= self.wall:
            return f"{_seconds(self.wall)} of wall time"
        if self.device is not None and spent.device >= self.device:
            return f"{_seconds(self.device)} of device time"
        if self.usd is not None and spent.usd >= self.usd:
            return f"{_dollars(self.usd)} for models"
        return None

    def used(self, spent: Spent) -> float:
        """The largest part of it that is gone, from 0."""
        parts = (
            (spent.evaluations, self.evaluations),
            (spent.wall, self.wall),
            (spent.device, self.device),
            (spent.usd, self.usd),
        )
        return max((amount / limit for amount, limit in parts if limit is not None), default=0.0)

    def evaluations_left(self, spent: Spent) -> float:
        return math.inf if self.evaluations is None else self.evaluations - spent.evaluations

    def seconds_left(self, spent: Spent) -> float:
        """Until time is up, on the wall or on the device, for work that uses both."""
        limits = ((self.wall, spent.wall), (self.device, spent.device))
        return min((limit - gone for limit, gone in limits if limit is not None), default=math.inf)

    def keeps_time(self, spent: Spent, seconds: float, part: float) -> bool:
        """Whether no more time is left, on the wall or on the device, than so many seconds, or this part of it all."""
        limits = ((self.wall, spent.wall), (self.device, spent.device))
        return any(limit - gone <= min(seconds, part * limit) for limit, gone in limits if limit is not None)

    def more(self, spent: Spent) -> Budget:
        """Twice as much of whatever is not nearly untouched, for a run that is to go on."""

        def twice(limit: float | None, gone: float) -> float | None:
            return limit if limit is None or gone < UNTOUCHED * limit else 2 * max(limit, gone)

        evaluations, wall, device, usd = (
            twice(self.evaluations, spent.evaluations),
            twice(self.wall, spent.wall),
            twice(self.device, spent.device),
            twice(self.usd, spent.usd),
        )
        return Budget(None if evaluations is None else math.ceil(evaluations), _round(wall), _round(device), usd)

    def gone(self, spent: Spent) -> str:
        """What was spent of all that is limited, for people."""
        parts = (
            (self.evaluations, counted(spent.evaluations, "evaluation")),
            (self.wall, f"{spent.wall:.0f} s"),
            (self.device, f"{spent.device:.0f} s on the device"),
            (self.usd, f"{_dollars(spent.usd)} for models"),
        )
        return ", ".join(said for limit, said in parts if limit is not None)

    def left(self, spent: Spent) -> str:
        """What remains, for people."""
        parts = []
        if self.evaluations is not None:
            parts.append(counted(max(0, self.evaluations - spent.evaluations), "evaluation"))
        if self.wall is not None:
            parts.append(_seconds(round(max(0.0, self.wall - spent.wall))))
        if self.device is not None:
            parts.append(f"{_seconds(round(max(0.0, self.device - spent.device)))} on the device")
        if self.usd is not None:
            parts.append(f"{_dollars(round(max(0.0, self.usd - spent.usd), 2))} for models")
        return ", ".join(parts) or "no limit"

    def __str__(self) -> str:
        parts = []
        if self.evaluations is not None:
            parts.append(f"{self.evaluations}evals")
        if self.wall is not None:
            parts.append(_seconds(self.wall))
        if self.device is not None:
            parts.append(f"{_seconds(self.device)}-device")
        if self.usd is not None:
            parts.append(f"{Decimal(repr(self.usd)):f}usd")
        return ",".join(parts)


def parse(text: str) -> Budget:
    found: dict[str, float] = {}
    for part in text.split(","):
        name, amount = _part(part.strip(), text)
        if name in found:
            raise _error(text, f"limits the same thing twice; write it once, as in {EXAMPLE}")
        if not amount > 0:
            raise _error(text, f"{_shown(part.strip())} leaves nothing to do; write more than 0")
        if amount > MOST:
            raise _error(text, f"{_shown(part.strip())} is more than a run can use; leave it out for no limit")
        found[name] = amount
    evaluations = found.get("evaluations")
    return Budget(
        None if evaluations is None else int(evaluations), found.get("wall"), found.get("device"), found.get("usd")
    )


def _part(part: str, whole: str) -> tuple[str, float]:
    if match := _EVALUATIONS.fullmatch(part):
        return "evaluations", float(match[1])
    if match := _MONEY.fullmatch(part):
        return "usd", float(match[1])
    if match := _TIME.fullmatch(part):
        return "device" if match[3] else "wall", float(match[1]) * UNITS[match[2]]
    raise _error(whole, f"cannot read {_shown(part)!r}; write it as in {EXAMPLE}")


def _error(whole: str, what: str) -> BudgetError:
    return BudgetError(f"budget {_shown(whole)!r}: {what}")


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _seconds(seconds: float) -> str:
    """In the largest unit that says it without a fraction."""
    for unit in ("h", "m"):
        if seconds >= UNITS[unit] and seconds % UNITS[unit] == 0:
            return f"{seconds / UNITS[unit]:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{Decimal(repr(seconds)):f}s"


def _round(seconds: float | None) -> float | None:
    """Up to whole minutes, or seconds where it is less than one."""
    if seconds is None:
        return None
    unit = 60.0 if seconds > 60 else 1.0
    return math.ceil(seconds / unit) * unit


def _dollars(usd: float) -> str:
    return f"${usd:,.2f}" if usd >= 0.01 or usd == 0 else f"${usd:g}"
